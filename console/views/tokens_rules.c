/* Of the Tokens view: the slot with most work, and the same slot under every rule. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "console/views/tokens.h"

enum { LABEL_W = 10, RATIO_W = 9, SLOWER_W = 9, LOAD_W = 7, BAR_MOST = 16, BAR_LEAST = 6 };

/* Shown order: the static layouts, then those that look at the work. */
static const char *const order[] = {"uniform", "zigzag", "striped", "lpt", "exact", "best"};

/* --- the sequence ----------------------------------------------------------------------------- */

static const char *kind_name(const struct cs_store *store, char letter)
{
    const struct cs_graph *graph = store->model.graph;
    const int encoder = tolower((unsigned char)letter) - 'a';
    if (tolower((unsigned char)letter) == 't')
        return "text";
    for (int32_t b = 0; graph != NULL && b < graph->n_branches; b++)
        if (graph->branches[b].encoder == encoder)
            return graph->branches[b].name;
    return "item";
}

/* columns of a cell, or cells of a column */
struct cell_scale {
    int width, n;
};

static int cell_at(const struct cell_scale *scale, int x)
{
    return (int)((int64_t)x * scale->n / scale->width);
}

static int run_end(const struct cs_store_sequence *s, const struct cell_scale *scale, int x)
{
    const int first = cell_at(scale, x);
    int end = x + 1;
    for (; end < scale->width; end++) {
        const int cell = cell_at(scale, end);
        bool begins =
            tolower((unsigned char)s->what[cell]) != tolower((unsigned char)s->what[first]);
        for (int c = cell_at(scale, end - 1) + 1; c <= cell; c++) /* some may have no column */
            begins |= isupper((unsigned char)s->what[c]) != 0;
        if (begins)
            break;
    }
    return end;
}

void cs_tokens_sequence_draw(const struct cs_store *store, const struct cs_screen *screen,
                             struct cs_area area, int y)
{
    const struct cs_store_sequence *s = &store->context.sequence;
    const int room = area.w - LABEL_W - 2;
    const struct cell_scale scale = {room > s->n_cells ? room / s->n_cells * s->n_cells : room,
                                     s->n_cells};
    cs_draw(area, 1, y, CS_STYLE_DIM, "sequence");
    cs_draw(area, 1, y + 1, CS_STYLE_DIM, "work");
    for (int x = 0, end; x < scale.width; x = end) {
        end = run_end(s, &scale, x);
        const char *name = kind_name(store, s->what[cell_at(&scale, x)]);
        const int n = end - x < (int)strlen(name) ? end - x : (int)strlen(name);
        cs_draw_n(area, LABEL_W + x, y, CS_STYLE_TEXT, name, (size_t)n);
        cs_fill(area, LABEL_W + x + n, y, end - x - n, CS_STYLE_DIM,
                cs_glyph(screen->glyphs, CS_GLYPH_IDLE));
    }
    for (int x = 0; x < scale.width; x++) {
        const double work = s->work[cell_at(&scale, x)];
        cs_draw(area, LABEL_W + x, y + 1, CS_STYLE_FORWARD,
                cs_glyph_spark(screen->glyphs, (int)(work * (CS_SPARK_LEVELS - 1) + 0.5)));
    }
}

/* --- the rules -------------------------------------------------------------------------------- */

static const struct cs_store_rule *rule_named(const struct cs_store_sequence *s, const char *name)
{
    for (int i = 0; i < s->n_rules; i++)
        if (strcmp(s->rule[i].name, name) == 0)
            return &s->rule[i];
    return NULL;
}

/* those that are shown and known, the job's own always */
static int list_rules(const struct cs_store_sequence *s, const struct cs_store_rule **out)
{
    bool has_own = false;
    int n = 0;
    for (size_t i = 0; i < CS_ARRAY_LEN(order); i++) {
        const struct cs_store_rule *rule = rule_named(s, order[i]);
        if (rule == NULL)
            continue;
        has_own |= strcmp(rule->name, s->own) == 0;
        out[n++] = rule;
    }
    if (!has_own && n < CS_STORE_RULES && rule_named(s, s->own) != NULL)
        out[n++] = rule_named(s, s->own);
    return n;
}

int cs_tokens_rules_want(const struct cs_store *store)
{
    const struct cs_store_rule *rule[CS_STORE_RULES];
    const int n = list_rules(&store->context.sequence, rule);
    return n > 0 ? 1 + n : 0;
}

struct columns {
    double best, worst; /* largest loads */
    int ranks;
    int bar; /* columns; what is left has a number for each rank, or a small column */
    bool has_numbers;
};

static struct columns columns_of(const struct cs_store_sequence *s,
                                 const struct cs_store_rule *const *rule, int n, int width)
{
    struct columns c = {.best = INFINITY, .worst = 1, .ranks = s->ranks};
    const int left = width - LABEL_W - RATIO_W - SLOWER_W - 4;
    for (int i = 0; i < n; i++) {
        c.best = fmin(c.best, rule[i]->worst);
        c.worst = fmax(c.worst, rule[i]->worst);
    }
    c.has_numbers = LOAD_W * s->ranks + BAR_LEAST <= left;
    c.bar = left - (c.has_numbers ? LOAD_W * s->ranks : s->ranks);
    c.bar = c.bar > BAR_MOST ? BAR_MOST : c.bar < BAR_LEAST ? BAR_LEAST : c.bar;
    return c;
}

static void draw_loads(const struct cs_store_rule *rule, const struct columns *c,
                       enum cs_glyph_set glyphs, struct cs_area area, int x, int y)
{
    for (int r = 0; r < c->ranks && x < area.w - RATIO_W - SLOWER_W; r++) {
        const double load = (double)rule->load[r];
        const enum cs_style style =
            load >= rule->worst && load > 1 ? CS_STYLE_BACKWARD : CS_STYLE_TEXT;
        char text[CS_FMT_CAP];
        snprintf(text, sizeof text, "%.1f", 100 * load);
        if (c->has_numbers)
            cs_draw_right(area, x += LOAD_W, y, style, text);
        else
            cs_draw(area, x++, y, style,
                    cs_glyph_spark(glyphs, (int)(load / c->worst * (CS_SPARK_LEVELS - 1) + 0.5)));
    }
}

/* a bar as long as it is over an even share, beside the worst rule */
static void draw_rule(const struct cs_store_sequence *s, const struct cs_store_rule *rule,
                      const struct columns *c, const struct cs_screen *screen, struct cs_area area,
                      int y)
{
    static const char *const full[CS_GLYPH_SETS] = {"█", "#"};
    const double over = c->worst > 1.0005 ? (rule->worst - 1) / (c->worst - 1) : 0;
    const bool is_own = strcmp(rule->name, s->own) == 0;
    char ratio[CS_FMT_CAP], slower[CS_FMT_CAP];
    if (is_own)
        cs_draw(area, 1, y, CS_STYLE_TITLE, cs_glyph(screen->glyphs, CS_GLYPH_CURSOR));
    cs_draw(area, 2, y, is_own ? CS_STYLE_TITLE : CS_STYLE_TEXT, rule->name);
    cs_fill(area, LABEL_W, y, (int)(over * c->bar + 0.5), CS_STYLE_BACKWARD, full[screen->glyphs]);
    draw_loads(rule, c, screen->glyphs, area, LABEL_W + c->bar + 1, y);
    snprintf(ratio, sizeof ratio, "%.3f", rule->worst);
    cs_fmt_drift(slower, sizeof slower, rule->worst / c->best - 1);
    cs_draw_right(area, area.w - 1 - SLOWER_W, y, CS_STYLE_TEXT, ratio);
    cs_draw_right(area, area.w - 1, y,
                  rule->worst <= c->best * 1.00005 ? CS_STYLE_GOOD : CS_STYLE_TEXT, slower);
}

static void draw_heading(const struct cs_store_sequence *s, const struct columns *c,
                         struct cs_area area, int y)
{
    cs_draw(area, 1, y, CS_STYLE_TITLE, "under rule");
    int x = LABEL_W + c->bar + 1;
    if (!c->has_numbers)
        cs_draw(area, x, y, CS_STYLE_DIM, "load of every rank");
    for (int r = 0; c->has_numbers && r < s->ranks; r++) {
        char text[CS_FMT_CAP];
        snprintf(text, sizeof text, "r%d %%", r);
        cs_draw_right(area, x += LOAD_W, y, CS_STYLE_DIM, text);
    }
    cs_draw_right(area, area.w - 1 - SLOWER_W, y, CS_STYLE_TITLE, "max/mean");
    cs_draw_right(area, area.w - 1, y, CS_STYLE_TITLE, "slower");
}

int cs_tokens_rules_draw(const struct cs_store *store, const struct cs_screen *screen,
                         struct cs_area area, int y)
{
    const struct cs_store_sequence *s = &store->context.sequence;
    const struct cs_store_rule *rule[CS_STORE_RULES];
    const int n = list_rules(s, rule);
    if (n == 0 || y + 1 >= area.h)
        return 0;
    const struct columns c = columns_of(s, rule, n, area.w);
    draw_heading(s, &c, area, y);
    int at = 0;
    for (; at < n && y + 1 + at < area.h; at++)
        draw_rule(s, rule[at], &c, screen, area, y + 1 + at);
    return 1 + at;
}
