/* The greedy way to a covering set: the first tuple that nothing covers yet, with values along all other axes that
 * cover the most others; where the planner refuses it, again with more of them plain. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "cover/cover.h"

enum { TRIES = 20, FREE = 4, VALUES = COVER_AXES * COVER_VALUES, MOST_TUPLES = 16384 };

struct tuple {
    uint8_t axis[3], value[3];
    uint8_t n;
    bool is_done; /* covered, or refused */
};

struct maker {
    struct tuple *tuple; /* (n) */
    int n;
    uint64_t random;
    struct cover_set *out;
};

static uint32_t next(struct maker *m)
{
    m->random = m->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(m->random >> 33);
}

static void add_tuple(struct maker *m, struct tuple t)
{
    CS_ASSERT(m->n < MOST_TUPLES);
    m->tuple[m->n++] = t;
}

/* Pairs of the first axes come with their triples, but for those that no third value goes with. */
static void list_tuples(struct maker *m)
{
    const struct cover_axis *x = cover_axes;
    for (int a = 0; a < COVER_CORE; a++)
        for (int b = a + 1; b < COVER_CORE; b++)
            for (int c = b + 1; c < COVER_CORE; c++)
                for (int i = 0; i < x[a].n * x[b].n * x[c].n; i++)
                    add_tuple(m, (struct tuple){
                                     {(uint8_t)a,            (uint8_t)b,                     (uint8_t)c},
                                     {(uint8_t)(i % x[a].n), (uint8_t)(i / x[a].n % x[b].n),
                                      (uint8_t)(i / x[a].n / x[b].n)                                   },
                                     3,
                                     false
                    });
    for (int a = 0; a < COVER_AXES; a++)
        for (int b = a + 1; b < COVER_AXES; b++)
            for (int i = 0; i < x[a].n * x[b].n; i++)
                add_tuple(m, (struct tuple){
                                 {(uint8_t)a,            (uint8_t)b           },
                                 {(uint8_t)(i % x[a].n), (uint8_t)(i / x[a].n)},
                                 2,
                                 false
                });
}

/* So that the first layouts of a set differ in everything. */
static void shuffle(struct maker *m)
{
    for (int i = m->n - 1; i > 0; i--) {
        const int k = (int)(next(m) % (uint32_t)(i + 1));
        const struct tuple t = m->tuple[i];
        m->tuple[i] = m->tuple[k];
        m->tuple[k] = t;
    }
}

static bool has(const struct cover_choice *choice, const bool *is_set, const struct tuple *t)
{
    for (int i = 0; i < t->n; i++)
        if (!is_set[t->axis[i]] || choice->value[t->axis[i]] != t->value[i])
            return false;
    return true;
}

/* What every value of an axis would cover beside those that are set: tuples with one axis open. */
static void weigh(const struct maker *m, const struct cover_choice *choice, const bool *is_set,
                  int gain[COVER_AXES][COVER_VALUES])
{
    memset(gain, 0, sizeof(int) * VALUES);
    for (int i = 0; i < m->n; i++) {
        const struct tuple *t = &m->tuple[i];
        int n_open = 0, at = 0, fits = 1;
        for (int k = 0; k < t->n && !t->is_done; k++) {
            if (!is_set[t->axis[k]])
                n_open++, at = k;
            else
                fits &= choice->value[t->axis[k]] == t->value[k];
        }
        if (!t->is_done && fits && n_open == 1)
            gain[t->axis[at]][t->value[at]]++;
    }
}

/* What a value asks of another axis: one of some of its values (bits). Not all there is to say, which the planner
 * knows; without these few most of what is drawn would be refused. */
static const struct {
    int axis, value, other;
    unsigned values;
} needs[] = {
    {COVER_SCHEDULE,     6, COVER_MODALITY,  1u << 1               },
    {COVER_SCHEDULE,     7, COVER_MODALITY,  1u << 1               },
    {COVER_SCHEDULE,     2, COVER_MODALITY,  1u << 0               },
    {COVER_EP,           1, COVER_FAMILY_AT, 1u << 6 | 1u << 7     },
    {COVER_EP,           2, COVER_FAMILY_AT, 1u << 6 | 1u << 7     },
    {COVER_EP,           3, COVER_FAMILY_AT, 1u << 6 | 1u << 7     },
    {COVER_ZERO,         2, COVER_DP,        1u << 1 | 1u << 2     },
    {COVER_ZERO,         3, COVER_DP,        1u << 1 | 1u << 2     },
    {COVER_VISION_ZERO,  2, COVER_DP,        1u << 1 | 1u << 2     },
    {COVER_VISION_ZERO,  3, COVER_DP,        1u << 1 | 1u << 2     },
    {COVER_VISION_ZERO,  2, COVER_VISION_DP, 1u | 1u << 2 | 1u << 3},
    {COVER_VISION_ZERO,  3, COVER_VISION_DP, 1u | 1u << 2 | 1u << 3},
    {COVER_SP,           1, COVER_TP,        ~1u                   },
    {COVER_VISION_SP,    1, COVER_VISION_TP, ~1u                   },
    {COVER_CONTEXT_ROWS, 1, COVER_CP,        ~1u                   },
    {COVER_EXCHANGE,     1, COVER_CP,        ~1u                   },
    {COVER_WINDOW,       1, COVER_FAMILY_AT, 1u << 1               },
    {COVER_MODALITY,     1, COVER_VISION_TP, 1u << 0               },
    {COVER_MODALITY,     2, COVER_VISION_PP, 1u << 0               },
    {COVER_MODALITY,     3, COVER_VISION_PP, 1u << 0               },
    {COVER_VISION_PLACE, 1, COVER_SCHEDULE,  ~(3u << 6)            },
    {COVER_VISION_PLACE, 2, COVER_SCHEDULE,  ~(1u << 2)            },
    {COVER_VISION_PLACE, 2, COVER_VISION_TP, 1u << 0               },
    {COVER_VISION_PLACE, 3, COVER_SCHEDULE,  ~(1u << 2 | 3u << 6)  },
    {COVER_VISION_PLACE, 3, COVER_VISION_PP, 1u << 0               },
    {COVER_VISION_PLACE, 4, COVER_SCHEDULE,  ~(1u << 2 | 3u << 6)  },
    {COVER_VISION_PLACE, 4, COVER_VISION_PP, 1u << 0               },
    {COVER_VPP,          1, COVER_SCHEDULE,  1u << 2               },
    {COVER_VPP,          2, COVER_SCHEDULE,  1u << 2               },
};

/* ep divides dp * cp; these axes count from 1 */
static bool is_dealt(const struct cover_choice *c, const bool *is_set, int axis, int value)
{
    struct cover_choice tried = *c;
    tried.value[axis] = (uint8_t)value;
    for (size_t i = 0; i < 3; i++) {
        const int of = (const int[]){COVER_EP, COVER_DP, COVER_CP}[i];
        if (!is_set[of] && of != axis)
            return true;
    }
    return (tried.value[COVER_DP] + 1) * (tried.value[COVER_CP] + 1) %
               (tried.value[COVER_EP] + 1) ==
           0;
}

/* A value does not go with what others ask for, or ask, of those that are set. */
static bool fits(const struct cover_choice *c, const bool *is_set, int axis, int value)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(needs); i++) {
        const bool is_mine = needs[i].axis == axis && needs[i].value == value;
        const bool is_of_me = needs[i].other == axis && is_set[needs[i].axis] &&
                              c->value[needs[i].axis] == needs[i].value;
        if (is_mine && is_set[needs[i].other] && !(needs[i].values >> c->value[needs[i].other] & 1))
            return false;
        if (is_of_me && !(needs[i].values >> value & 1))
            return false;
    }
    return is_dealt(c, is_set, axis, value);
}

/* of the LLM alone: the first four axes count from 1 */
static int ranks_of(const struct cover_choice *c)
{
    return (c->value[0] + 1) * (c->value[1] + 1) * (c->value[2] + 1) * (c->value[3] + 1);
}

/* Axis by axis, the one with the most to gain first; plain: of 100 axes so many have their first value;
 * is_free: whatever is needed. */
static void fill(struct maker *m, struct cover_choice *choice, bool *is_set, int plain,
                 bool is_free)
{
    int gain[COVER_AXES][COVER_VALUES];
    for (int a = 0; a < COVER_AXES; a++) {
        if (!is_set[a] && (int)(next(m) % 100) < plain && (is_free || fits(choice, is_set, a, 0)))
            is_set[a] = true; /* its value is 0 */
    }
    for (;;) {
        int axis = -1, value = 0;
        uint32_t best = 0;
        weigh(m, choice, is_set, gain);
        for (int a = 0; a < COVER_AXES; a++)
            for (int v = 0; !is_set[a] && v < cover_axes[a].n; v++) {
                struct cover_choice tried = *choice;
                tried.value[a] = (uint8_t)v;
                const uint32_t score = ((uint32_t)gain[a][v] << 8) + (next(m) & 255) + 1;
                if (score <= best || ranks_of(&tried) > COVER_RANKS ||
                    (!is_free && !fits(choice, is_set, a, v)))
                    continue;
                best = score;
                axis = a;
                value = v;
            }
        if (axis < 0)
            break;
        choice->value[axis] = (uint8_t)value;
        is_set[axis] = true;
    }
}

static void mark(struct maker *m, const struct cover_choice *choice)
{
    bool is_set[COVER_AXES];
    memset(is_set, true, sizeof is_set);
    for (int i = 0; i < m->n; i++)
        if (!m->tuple[i].is_done && has(choice, is_set, &m->tuple[i])) {
            m->tuple[i].is_done = true;
            m->out->n_tuples++;
        }
}

static enum cs_status try_choice(const struct cover_choice *choice, struct cs_err *err)
{
    struct cover_plan plan;
    const struct cs_test_spec options = cover_spec(choice);
    const enum cs_status status = cover_plan_open(&options, &plan, err);
    cover_plan_close(&plan);
    return status;
}

static void refuse(struct maker *m, const struct tuple *t, const struct cover_choice *choice,
                   const struct cs_err *err)
{
    struct cover_set *s = m->out;
    s->refusal = realloc(s->refusal, (size_t)(s->n_refusals + 1) * sizeof *s->refusal);
    CS_ASSERT(s->refusal != NULL);
    struct cover_refusal *r = &s->refusal[s->n_refusals++];
    *r = (struct cover_refusal){.choice = *choice, .n_axes = t->n};
    for (int i = 0; i < t->n; i++)
        r->axis[i] = t->axis[i];
    snprintf(r->why, sizeof r->why, "%s", err->text);
}

static enum cs_status try_tuple(struct maker *m, const struct tuple *t, int plain, bool is_free,
                                struct cover_choice *choice, struct cs_err *err)
{
    bool is_set[COVER_AXES] = {false};
    *choice = (struct cover_choice){.value = {0}};
    for (int k = 0; k < t->n; k++) {
        choice->value[t->axis[k]] = t->value[k];
        is_set[t->axis[k]] = true;
    }
    fill(m, choice, is_set, plain, is_free);
    return try_choice(choice, err);
}

/* A layout with the tuple; false: there is none. The reason is that of the plainest with what is needed. */
static bool find(struct maker *m, struct tuple *t, struct cover_choice *choice)
{
    struct cs_err err = {.text = ""};
    for (int i = 0; i < TRIES; i++)
        if (try_tuple(m, t, i * 100 / TRIES, false, choice, &err) == CS_OK)
            return true;
    for (int i = 0; i < FREE; i++)
        if (try_tuple(m, t, i * 100 / (FREE - 1), true, choice, &err) == CS_OK)
            return true;
    if (try_tuple(m, t, 100, false, choice, &err) == CS_OK)
        return true;
    t->is_done = true;
    refuse(m, t, choice, &err);
    return false;
}

void cover_set_make(int most, struct cover_set *out)
{
    struct maker m = {.tuple = malloc(MOST_TUPLES * sizeof *m.tuple), .random = 17, .out = out};
    *out = (struct cover_set){.choice = NULL};
    CS_ASSERT(m.tuple != NULL);
    list_tuples(&m);
    shuffle(&m);
    for (int i = 0; i < m.n && out->n < most; i++) {
        struct cover_choice choice;
        if (m.tuple[i].is_done || !find(&m, &m.tuple[i], &choice))
            continue;
        mark(&m, &choice);
        out->choice = realloc(out->choice, (size_t)(out->n + 1) * sizeof *out->choice);
        CS_ASSERT(out->choice != NULL);
        out->choice[out->n++] = choice;
    }
    free(m.tuple);
}

void cover_set_free(struct cover_set *set)
{
    free(set->choice);
    free(set->refusal);
    *set = (struct cover_set){.choice = NULL};
}
