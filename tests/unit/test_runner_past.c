/* What a runner reads in the journal of the runs before it: which evaluation is there and what it
 * found, however the rows are spelled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <math.h>

#include "core/wire/wire.h"
#include "runner/steps/past.h"
#include "support/tmpdir.h"

enum { LAST = 7, EVERY = 4, MAX_ROWS = 6 }; /* evaluated after steps 3, 7, 11, ... */

/* A row of the journal: 'T' trained, 'E' evaluated with a result, 'N' a note with the number in
 * it, 'X' no JSON. */
struct row {
    char kind;
    int step;
    double exact_match;
};

/* What is read at the checkpoint of step LAST, and of which journal. */
static const struct {
    const char *name;
    int evaluated_step;
    double exact_match;
    struct row row[MAX_ROWS];
} cases[] = {
    {"nothing",   -1,   (double)NAN, {{0}}                                                           },
    {"trained",   -1,   (double)NAN, {{'T', 6, 0}, {'T', LAST, 0}}                                   },
    {"evaluated", LAST, 0.25,        {{'T', LAST, 0}, {'E', LAST, 0.25}}                             },
    {"again",     -1,   0.25,        {{'E', LAST, 0.25}, {'T', LAST, 0}}                             },
    {"and anew",  LAST, 0.5,         {{'E', LAST, 0.25}, {'T', LAST, 0}, {'E', LAST, 0.5}}           },
    {"earlier",   3,    0.125,       {{'E', 3, 0.125}, {'T', 4, 0}, {'T', LAST, 0}}                  },
    {"later",     3,    0.125,       {{'E', 3, 0.125}, {'T', LAST, 0}, {'T', 11, 0}, {'E', 11, 0.75}}},
    {"others",    LAST, 0.25,        {{'E', LAST, 0.25}, {'N', LAST, 0}, {'X', 0, 0}, {'N', 3, 0}}   },
};

/* Spellings of the same objects, the first as runners write them. */
static const struct {
    size_t flags;
    bool is_escaped; /* a letter of "eval" */
} spellings[] = {
    {JSON_COMPACT,                  false},
    {0,                             false},
    {JSON_COMPACT | JSON_SORT_KEYS, false},
    {JSON_SORT_KEYS,                true },
};

static json_t *row_json(const struct row *row)
{
    char text[60];
    json_t *msg = cs_msg_new(row->kind == 'N' ? "runner.note" : "runner.step");
    if (row->kind == 'N') {
        snprintf(text, sizeof text, "\"kind\":\"eval\",\"step\":%d,", row->step);
        cs_msg_set_str(msg, "level", "info");
        cs_msg_set_str(msg, "text", text);
        return msg;
    }
    cs_msg_set_str(msg, "kind", row->kind == 'E' ? "eval" : "train");
    cs_msg_set_int(msg, "step", row->step);
    if (row->kind == 'E')
        cs_msg_set_num(msg, "exact_match", row->exact_match);
    cs_msg_set_num(msg, "loss", 1.5);
    return msg;
}

static void add_line(struct cs_buf *text, const struct row *row, size_t how)
{
    json_t *msg = row_json(row);
    char *line = json_dumps(msg, spellings[how].flags);
    char *word = spellings[how].is_escaped ? strstr(line, "\"eval\"") : NULL;
    if (word)
        cs_buf_addf(text, "%.*s\"\\u0065val\"%s\n", (int)(word - line), line, word + 6);
    else
        cs_buf_addf(text, "%s\n", line);
    free(line);
    json_decref(msg);
}

static void write_journal(const char *path, const struct row *rows, size_t how)
{
    struct cs_buf text = {0};
    for (int i = 0; i < MAX_ROWS && rows[i].kind; i++) {
        if (rows[i].kind == 'X')
            cs_buf_adds(&text, "{\"type\":\"runner.step\",\"kind\":\"eval\",\"step\":7,\n");
        else
            add_line(&text, &rows[i], how);
    }
    tmpdir_write(path, cs_buf_str(&text), text.len);
    cs_buf_free(&text);
}

/* A runner that goes on from the checkpoint of step LAST. */
static struct cs_runner resumed(const char *dir, struct cs_spec *spec)
{
    struct cs_runner r = {.last_step = LAST, .evaluated_step = -1, .exact_match = (double)NAN};
    *spec = (struct cs_spec){.has_eval = true, .eval_every = EVERY, .steps = 100};
    r.job.spec = spec;
    r.job.checkpoint_step = LAST;
    snprintf(r.job.dir, sizeof r.job.dir, "%s", dir);
    return r;
}

static void a_journal_is_read_the_same_however_it_is_spelled(void **state)
{
    (void)state;
    char *dir = tmpdir_new();
    for (size_t i = 0; i < CS_ARRAY_LEN(cases) * CS_ARRAY_LEN(spellings); i++) {
        const size_t nth = i / CS_ARRAY_LEN(spellings), how = i % CS_ARRAY_LEN(spellings);
        struct cs_err err = {0};
        struct cs_spec spec;
        struct cs_runner r = resumed(dir, &spec);
        write_journal(tmpdir_path(dir, "journal"), cases[nth].row, how);
        if (cs_past_read(&r, &err) != CS_OK)
            fail_msg("%s", err.text);
        const double want = cases[nth].exact_match;
        const bool is_same = isnan(want) ? isnan(r.exact_match) : r.exact_match == want;
        if (r.evaluated_step != cases[nth].evaluated_step || !is_same ||
            r.is_eval_first != (cases[nth].evaluated_step != LAST))
            fail_msg("%s, spelling %zu: step %lld is evaluated, %g, %s", cases[nth].name, how,
                     (long long)r.evaluated_step, r.exact_match,
                     r.is_eval_first ? "another is to be made" : "no other is to be made");
    }
    tmpdir_free(dir);
}

static void without_a_checkpoint_the_journal_is_not_read(void **state)
{
    (void)state;
    struct cs_err err = {0};
    struct cs_spec spec;
    struct cs_runner r = resumed("/nowhere", &spec);
    assert_int_equal(cs_past_read(&r, &err), CS_NOT_FOUND);
    r.job.checkpoint_step = -1;
    assert_int_equal(cs_past_read(&r, &err), CS_OK);
    assert_false(r.is_eval_first);
}

/* A run that was killed while the disk was full could not tell it. */
static void rows_that_are_missing_are_told(void **state)
{
    char *dir = tmpdir_new();
    struct cs_spec spec;
    (void)state;
    struct cs_buf text = {0};
    for (int skip = 0; skip < 2; skip++) {
        struct cs_runner r = resumed(dir, &spec);
        cs_buf_reset(&text);
        for (int step = 0; step <= LAST; step++)
            if (!skip || step < 3 || step > 4)
                add_line(&text, &(struct row){'T', step, 0}, 0);
        tmpdir_write(tmpdir_path(dir, "journal"), cs_buf_str(&text), text.len);
        assert_int_equal(cs_past_read(&r, NULL), CS_OK);
        assert_int_equal(r.alarm[CS_ALERT_ROWS_LOST].count, skip);
        if (skip)
            assert_non_null(strstr(r.alarm[CS_ALERT_ROWS_LOST].text,
                                   "2 rows of the journal are missing, of steps 3 to 4"));
    }
    cs_buf_free(&text);
    tmpdir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_journal_is_read_the_same_however_it_is_spelled),
        cmocka_unit_test(without_a_checkpoint_the_journal_is_not_read),
        cmocka_unit_test(rows_that_are_missing_are_told),
    };
    return cmocka_run_group_tests_name("runner/past", tests, NULL, NULL);
}
