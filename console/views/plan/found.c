/* The plans that a script's search found: which of them jobs run and how fast they are. Enter looks at one, R makes
 * a job of it. */
#include <stdio.h>
#include <string.h>

#include "console/views/plan/plan.h"
#include "console/whatif/found.h"
#include "core/base/str.h"

enum { N_COLUMNS = 11, HEAD = 1, FOOT = 1, CELL = 160, MOST_SHOWN = 64 };

static const struct cs_column columns[N_COLUMNS] = {
    {"",         2,  0, 0, CS_ALIGN_LEFT },
    {"#",        2,  0, 0, CS_ALIGN_RIGHT},
    {"RUNS",     4,  0, 0, CS_ALIGN_LEFT },
    {"STEP",     6,  0, 0, CS_ALIGN_RIGHT},
    {"SLOT",     6,  0, 5, CS_ALIGN_RIGHT},
    {"TOK/S",    5,  0, 4, CS_ALIGN_RIGHT},
    {"MEMORY",   6,  0, 1, CS_ALIGN_RIGHT},
    {"BUBBLE",   6,  0, 3, CS_ALIGN_RIGHT},
    {"RANKS",    5,  0, 0, CS_ALIGN_RIGHT},
    {"SCHEDULE", 8,  0, 2, CS_ALIGN_LEFT },
    {"LAYOUT",   28, 0, 0, CS_ALIGN_LEFT },
};

struct row {
    char text[N_COLUMNS][CELL];
};

static const json_t *plan_at(const struct cs_store *store, int i)
{
    return json_array_get(store->found.plans, (size_t)i);
}

static bool runs(const json_t *plan)
{
    return json_is_true(json_object_get(plan, "runs"));
}

static const char *text_of(const json_t *plan, const char *key)
{
    const char *text = json_string_value(json_object_get(plan, key));
    return text ? text : "";
}

static void fill_row(const json_t *plan, int number, const char *mark, struct row *row)
{
    struct cs_found_cells c;
    cs_found_cells(plan, true, &c);
    const char *cells[N_COLUMNS] = {mark,
                                    "",
                                    c.runs,
                                    c.step,
                                    c.slot,
                                    c.tokens,
                                    c.memory,
                                    c.bubble,
                                    c.ranks,
                                    text_of(plan, "schedule"),
                                    cs_buf_str(&c.layout)};
    for (int i = 0; i < N_COLUMNS; i++)
        cs_str_copy(row->text[i], CELL, cells[i]);
    snprintf(row->text[1], CELL, "%d", number);
    cs_buf_free(&c.layout);
}

int cs_plan_found_want(const struct cs_store *store, const struct cs_screen *screen, int width)
{
    (void)screen;
    (void)width;
    return HEAD + (int)json_array_size(store->found.plans) + FOOT;
}

static void draw_foot(const struct cs_store *store, const struct cs_screen *screen, int hidden,
                      struct cs_area area, int y)
{
    const json_t *plan = plan_at(store, screen->at.plan_cursor);
    char text[400];
    if (plan && !runs(plan))
        snprintf(text, sizeof text, "jobs do not run this one: %s", text_of(plan, "why_not_run"));
    else
        snprintf(text, sizeof text, "Enter looks at it (*)   %s   %s",
                 store->found.is_job ? "R runs it" : "R: the script makes no job of it",
                 text_of(plan, "why"));
    cs_grid_foot(area, y, plan && !runs(plan) ? CS_STYLE_WARN : CS_STYLE_DIM, screen->glyphs, text,
                 hidden);
}

void cs_plan_found_draw(const struct cs_store *store, const struct cs_screen *screen,
                        struct cs_area area, bool is_chosen)
{
    const int n = (int)json_array_size(store->found.plans);
    int room = area.h - HEAD - FOOT;
    struct row row[MOST_SHOWN];
    const char *cell[MOST_SHOWN * N_COLUMNS];
    struct cs_grid grid = {.column = columns, .n_columns = N_COLUMNS};
    (void)is_chosen;
    room = cs_screen_clamp(room, 0, n < MOST_SHOWN ? n : MOST_SHOWN);
    const int cursor = cs_screen_clamp(screen->at.plan_cursor, 0, n > 0 ? n - 1 : 0);
    const int top = cs_screen_clamp(cursor - room + 1, 0, n);
    for (int i = 0; i < room; i++) {
        char mark[8];
        snprintf(mark, sizeof mark, "%s%s",
                 top + i == cursor ? cs_glyph(screen->glyphs, CS_GLYPH_CURSOR) : " ",
                 top + i + 1 == store->found.picked ? "*" : "");
        fill_row(plan_at(store, top + i), top + i + 1, mark, &row[i]);
        for (int k = 0; k < N_COLUMNS; k++)
            cell[i * N_COLUMNS + k] = row[i].text[k];
    }
    cs_grid_layout(&grid, cell, room, area.w - 2);
    cs_grid_title(&grid, area, 1, 0);
    for (int i = 0; i < room; i++) {
        const json_t *plan = plan_at(store, top + i);
        cs_grid_row(&grid, area, 1, HEAD + i,
                    top + i + 1 == store->found.picked ? CS_STYLE_GOOD
                    : runs(plan)                       ? CS_STYLE_TEXT
                                                       : CS_STYLE_DIM,
                    NULL, screen->glyphs, &cell[i * N_COLUMNS]);
        if (top + i == cursor)
            cs_restyle(cs_area_part(area, 0, HEAD + i, area.w, 1), CS_STYLE_CURSOR);
    }
    if (area.h > HEAD + room)
        draw_foot(store, screen, n - room, area, HEAD + room);
}

void cs_plan_found_read(const struct cs_store *store, struct cs_buf *out)
{
    const json_t *plan;
    size_t i;
    json_array_foreach(store->found.plans, i, plan)
    {
        struct cs_found_cells c;
        cs_found_cells(plan, true, &c);
        cs_buf_addf(out,
                    "Plan %zu%s: a step %s, a slot %s, %s tokens a second, %s, %s rank%s, %s, %s.",
                    i + 1, (int)i + 1 == store->found.picked ? ", picked" : "", c.step, c.slot,
                    c.tokens, c.memory, c.ranks, strcmp(c.ranks, "1") == 0 ? "" : "s",
                    text_of(plan, "schedule"), cs_buf_str(&c.layout));
        if (!runs(plan))
            cs_buf_addf(out, " Jobs do not run it: %s.", text_of(plan, "why_not_run"));
        cs_buf_addc(out, '\n');
        cs_buf_free(&c.layout);
    }
}

unsigned cs_plan_found_pick(struct cs_screen *screen, const struct cs_store *store)
{
    const json_t *plan = plan_at(store, screen->at.plan_cursor);
    if (!plan)
        return CS_DO_DRAW;
    screen->pick = screen->at.plan_cursor + 1;
    return CS_DO_PICK | CS_DO_DRAW;
}

/* Why R does not run the one that is picked; NULL: it does. */
static const char *refusal(const struct cs_store_found *found, const struct cs_screen *screen)
{
    if (screen->is_read_only)
        return "this console is read-only";
    if (!found->is_job)
        return "the script returns a search alone: 'return cs.job { plan = found, data = ... }' "
               "makes a job of it";
    if (found->picked == 0)
        return "no plan is picked: Enter looks at one";
    return found->words[0] ? NULL
                           : "planned for other devices, or words that are too long: run it from a "
                             "shell";
}

enum cs_view_run cs_plan_found_can_run(const struct cs_store *store, const struct cs_screen *screen)
{
    if (!store->found.plans)
        return CS_RUN_NOTHING;
    return refusal(&store->found, screen) ? CS_RUN_REFUSED : CS_RUN_READY;
}

/* The one that is picked, and only of a script that says what a job needs besides. */
unsigned cs_plan_found_run(struct cs_screen *screen, const struct cs_store *store)
{
    const struct cs_store_found *found = &store->found;
    const char *why_not = refusal(found, screen);
    if (why_not) {
        cs_screen_say(screen, CS_STYLE_WARN, why_not);
        return CS_DO_DRAW;
    }
    snprintf(screen->shell, sizeof screen->shell, "run --detach --pick %d %s", found->picked,
             found->words);
    snprintf(screen->question, sizeof screen->question, "run plan %d as a job?", found->picked);
    screen->order = NULL;
    screen->prompt = CS_PROMPT_CONFIRM;
    return CS_DO_DRAW;
}
