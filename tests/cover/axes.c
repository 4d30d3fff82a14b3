/* The axes of layouts and models, as members of the documents of tests. The first value of each is the plainest. */
#include "cover/cover.h"

#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(struct cs_test_spec, member)

#define HEADS(all, of_keys)                                                                        \
    "{\"num_attention_heads\": " all ", \"num_key_value_heads\": " of_keys ", \"head_dim\": 8}"

#define RECURRENT                                                                                  \
    "{\"linear_num_key_heads\": 6, \"linear_num_value_heads\": 12, \"num_attention_heads\": 6, "   \
    "\"num_key_value_heads\": 3}"

/* Language models of eight kinds, most with heads that up to four ranks can share. Where halves are normed behind,
 * rounding of small sums is made large. */
static const struct {
    const char *name;
    struct cs_test_spec base;
    double slack; /* times the limit */
} families[] = {
    {"llama",     {.llm_keys = HEADS("12", "6")},                                             1 },
    {"qwen2",     {.is_qwen2 = true, .is_tied = true, .llm_keys = HEADS("12", "3")},          1 },
    {"qwen3",     {.is_qwen3 = true, .llm_keys = HEADS("12", "2")},                           1 },
    {"gemma4",    {.llm_keys = CS_TEST_GEMMA4, .is_tied = true, .mask = "image_window"},      20},
    {"phi3",      {.llm_keys = CS_TEST_PHI3},                                                 1 },
    {"qwen3.5",   {.is_recurrent = true, .llm_keys = RECURRENT},                              1 },
    {"qwen3-moe", {.has_experts = true, .mask = "image_bidir", .llm_keys = HEADS("12", "6")}, 1 },
    {"mixtral",   {.llm_keys = CS_TEST_MIXTRAL, .is_tied = true},                             1 },
};

/* clang-format off */
const struct cover_axis cover_axes[COVER_AXES] = {
    {"tp",           4, AT(llm_tp),       {NULL}, {1, 2, 3, 4}, COVER_INT},
    {"cp",           3, AT(llm_cp),       {NULL}, {1, 2, 3},    COVER_INT},
    {"pp",           3, AT(llm_pp),       {NULL}, {1, 2, 3},    COVER_INT},
    {"dp",           3, AT(dp),           {NULL}, {1, 2, 3},    COVER_INT},
    {"zero",         4, AT(zero),         {NULL}, {0, 1, 2, 3}, COVER_INT},
    {"ep",           4, AT(llm_ep),       {NULL}, {1, 2, 3, 4}, COVER_INT},
    {"schedule",     8, AT(schedule),     {"1f1b", "gpipe", "interleaved", "zb-h1", "zb-h2", "zb-h2-late", "three-phase", "anchors"}, {0}, COVER_TEXT},
    {"modality",     4, AT(modality),     {"encoder-parallel", "encoder-colocated", "encoder-replicated", "encoder-first"}, {0}, COVER_TEXT},
    {"sp",           2, AT(llm_sp),       {NULL}, {0, 1},       COVER_BOOL},
    {"recompute",    3, AT(recompute),    {"none", "selective", "full"}, {0}, COVER_TEXT},
    {"context",      4, AT(context),      {"lpt", "zigzag", "striped", "uniform"}, {0}, COVER_TEXT},
    {"context_rows", 2, AT(context_rows), {NULL}, {0, 40},      COVER_INT},
    {"exchange",     2, AT(exchange),     {"keys", "heads"}, {0}, COVER_TEXT},
    {"vision tp",    4, AT(vision_tp),    {NULL}, {1, 2, 3, 4}, COVER_INT},
    {"vision sp",    2, AT(vision_sp),    {NULL}, {0, 1},       COVER_BOOL},
    {"vision cp",    4, AT(vision_cp),    {NULL}, {0, 1, 2, 3}, COVER_INT},
    {"vision pp",    3, AT(vision_pp),    {NULL}, {1, 2, 3},    COVER_INT},
    {"vision dp",    4, AT(vision_dp),    {NULL}, {0, 1, 2, 3}, COVER_INT},
    {"vision zero",  4, AT(vision_zero),  {NULL}, {0, 1, 2, 3}, COVER_INT},
    {"vision place", 5, AT(vision_place), {"modality", "own", "colocated", "replicated", "first"}, {0}, COVER_TEXT},
    {"vpp",          3, AT(llm_vpp),      {NULL}, {0, 2, 3},    COVER_INT},
    {"depth pp",     2, AT(depth_pp),     {NULL}, {1, 2},       COVER_INT},
    {"depth dp",     3, AT(depth_dp),     {NULL}, {0, 1, 2},    COVER_INT},
    {"stripes",      3, AT(stripes),      {"auto", "always", "never"}, {0}, COVER_TEXT},
    {"family",       8, 0,                {NULL}, {0},          COVER_FAMILY},
    {"encoders",     3, AT(n_encoders),   {NULL}, {1, 2, -1},   COVER_INT},
    {"rules",        5, AT(rules),        {"train:*", "train:vision.projector", "train:* freeze:vision.encoder*", "train:* freeze:llm*", "train:vision.encoder* train:llm.layers.1"}, {0}, COVER_TEXT},
    {"window",       2, AT(sliding_window), {NULL}, {0, 9},     COVER_INT},
};

/* clang-format on */

static void set(struct cs_test_spec *spec, const struct cover_axis *axis, int value)
{
    char *const at = (char *)spec + axis->offset;
    if (axis->kind == COVER_INT)
        memcpy(at, &axis->number[value], sizeof(int));
    if (axis->kind == COVER_BOOL)
        *(bool *)(void *)at = axis->number[value] != 0;
    if (axis->kind == COVER_TEXT)
        *(const char **)(void *)at = axis->text[value];
}

double cover_slack(const struct cover_choice *choice)
{
    return families[choice->value[COVER_FIRST_SHAPE]].slack;
}

struct cs_test_spec cover_spec(const struct cover_choice *choice)
{
    struct cs_test_spec out = families[choice->value[COVER_FIRST_SHAPE]].base;
    for (int a = 0; a < COVER_AXES; a++)
        set(&out, &cover_axes[a], choice->value[a]);
    /* of a text model there is no projector to train */
    if (out.n_encoders < 0 && strncmp(out.rules, "train:vision", 12) == 0)
        out.rules = "train:llm.layers.1 train:llm.embed";
    if (out.n_encoders < 0 && strcmp(out.rules, "train:* freeze:llm*") == 0)
        out.rules = "train:* freeze:llm.layers.0";
    if (!out.is_qwen2) /* the only one with windows from a layer on */
        out.sliding_window = 0;
    out.seed = 3 + choice->value[COVER_FIRST_SHAPE];
    out.slots = COVER_SLOTS;
    out.llm_layers = 4; /* chunks of three stages have two each, with both ends */
    out.vision_width = out.llm_width = 48;
    return out;
}

struct cs_test_spec cover_spec_alone(const struct cover_choice *choice)
{
    struct cover_choice alone = *choice;
    memset(alone.value, 0, COVER_FIRST_SHAPE);
    struct cs_test_spec out = cover_spec(&alone);
    out.modality = "encoder-colocated";
    return out;
}

static int add(char *out, size_t n, int at, const struct cover_axis *axis, int value)
{
    const size_t left = at < (int)n ? n - (size_t)at : 0;
    const char *text = axis->kind == COVER_FAMILY ? families[value].name : axis->text[value];
    char number[16];
    snprintf(number, sizeof number, "%d", axis->number[value]);
    return at + snprintf(out + (left > 0 ? at : 0), left, "%s%s %s", at > 0 ? ", " : "", axis->name,
                         text != NULL ? text : number);
}

void cover_say(const struct cover_choice *choice, char *out, size_t n)
{
    int at = 0;
    for (int a = 0; a < COVER_AXES; a++)
        if (choice->value[a] > 0 || a == COVER_FIRST_SHAPE)
            at = add(out, n, at, &cover_axes[a], choice->value[a]);
}

void cover_say_axes(const struct cover_choice *choice, const int *axis, int n_axes, char *out,
                    size_t n)
{
    int at = 0;
    for (int i = 0; i < n_axes; i++)
        at = add(out, n, at, &cover_axes[axis[i]], choice->value[axis[i]]);
}
