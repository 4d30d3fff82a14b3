/* What workers say their parameters became: weights.json, and the alarm when the two copies of a
 * tied embedding differ. Reports are made by hand, no process runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "runner/messages.h"
#include "runner/steps/weights.h"
#include "support/planned.h"
#include "support/tmpdir.h"

static const char *const right = "0123456789abcdef0123456789abcdef",
                         *const wrong = "0123456789abcdef0123456789abcdee",
                         *const other = "ffffffffffffffffffffffffffffffff";

enum { STEP = 11, MAX_RANKS = 8 };

/* A runner at the end of a job, without processes. */
struct end {
    char *dir;
    struct cs_test_planned made;
    struct cs_child child[MAX_RANKS];
    struct cs_runner r;
};

static void begin(struct end *e, const struct cs_test_spec *spec)
{
    *e = (struct end){.dir = tmpdir_new(), .made = cs_test_plan(spec)};
    e->r = (struct cs_runner){.last_step = STEP, .child = e->child};
    e->r.job.graph = e->made.graph;
    e->r.generation.plan = e->made.plan;
    e->r.generation.n_ranks = cs_plan_world(e->made.plan);
    assert_true(e->r.generation.n_ranks <= MAX_RANKS);
    snprintf(e->r.job.dir, sizeof e->r.job.dir, "%s", e->dir);
    for (int i = 0; i < e->r.generation.n_ranks; i++)
        e->child[i] = (struct cs_child){.runner = &e->r, .rank = i};
    assert_int_equal(cs_journal_open(tmpdir_path(e->dir, "journal"), &e->r.journal, NULL), CS_OK);
}

static void end(struct end *e)
{
    cs_journal_close(e->r.journal);
    json_decref(e->r.weights);
    cs_test_planned_free(&e->made);
    tmpdir_free(e->dir);
}

/* worker.done of a rank: the hash of one parameter, and of the head's copy (NULL: it has none) */
static void report(struct end *e, int rank, int32_t param, const char *hash, const char *copy)
{
    struct cs_err err = {0};
    json_t *msg = cs_msg_new("worker.done");
    cs_msg_set_int(msg, "rank", rank);
    cs_msg_set_int(msg, "step", STEP);
    cs_msg_set(msg, "weights", json_pack("[[i, s]]", (int)param, hash));
    if (copy)
        cs_msg_set_str(msg, "tied_copy", copy);
    if (cs_msg_check(msg, &err) != CS_OK)
        fail_msg("%s", err.text);
    cs_child_message(&e->child[rank], msg);
    assert_true(e->child[rank].is_done);
    json_decref(msg);
}

/* The only row of the journal, the caller's reference; NULL: it has none. */
static json_t *note_of(const struct end *e)
{
    size_t n = 0;
    char *text = tmpdir_read(tmpdir_path(e->dir, "journal"), &n);
    json_t *row = NULL;
    if (n > 0) {
        assert_ptr_equal(strchr(text, '\n'), text + n - 1);
        assert_int_equal(cs_line_parse(text, n, &row, NULL), CS_OK);
        assert_int_equal(cs_msg_check(row, NULL), CS_OK);
    }
    free(text);
    return row;
}

/* weights.json has the table's hash and, under copies, the head's (NULL: none) */
static void assert_weights(const struct end *e, const char *name, const char *table,
                           const char *copy)
{
    json_t *doc = json_load_file(tmpdir_path(e->dir, "weights.json"), 0, NULL);
    json_t *copies = cs_msg_obj(doc, "copies");
    assert_int_equal(cs_msg_int(doc, "step", -1), STEP);
    assert_string_equal(cs_msg_str(cs_msg_obj(doc, "xxh3"), name, ""), table);
    assert_int_equal(json_object_size(copies), copy ? 1 : 0);
    assert_string_equal(cs_msg_str(copies, name, ""), copy ? copy : "");
    json_decref(doc);
}

static void assert_alarm(const struct end *e, const char *table, const char *table_rank,
                         const char *copy, const char *copy_rank)
{
    char part[3][200];
    json_t *note = note_of(e);
    const char *text = cs_msg_str(note, "text", "");
    assert_string_equal(cs_msg_type(note), "runner.note");
    assert_string_equal(cs_msg_str(note, "level", ""), cs_log_level_name(CS_ERROR));
    assert_string_equal(cs_msg_str(note, "rule", ""), "copies_differ");
    snprintf(part[0], sizeof part[0], "the two copies of llm/model.embed_tokens.weight,");
    snprintf(part[1], sizeof part[1], "differ: %s on %s,", table, table_rank);
    snprintf(part[2], sizeof part[2], ", %s on %s;", copy, copy_rank);
    for (size_t i = 0; i < CS_ARRAY_LEN(part); i++)
        if (!strstr(text, part[i]))
            fail_msg("\"%s\" is not in \"%s\"", part[i], text);
    json_decref(note);
}

/* Layouts with the table and the head on two ranks. */
static const struct layout {
    struct cs_test_spec spec;
    int table, head;
    const char *table_rank, *head_rank;
} layouts[] = {
    {{.is_tied = true, .llm_pp = 2},                   1, 2, "rank 1 (llm.0)", "rank 2 (llm.1)"},
    {{.is_tied = true, .llm_pp = 3, .n_encoders = -1}, 0, 2, "rank 0 (llm.0)", "rank 2 (llm.2)"},
};

/* All ranks of a layout report; those with the table and the head in one or the other order, all
 * others a parameter of their own. */
static void report_all(struct end *e, const struct layout *l, bool is_head_first, const char *copy)
{
    const int32_t tied = e->made.graph->tied_param, some = tied == 0 ? 1 : 0;
    assert_int_equal(e->made.plan->stages[e->made.plan->embed_stage].rank, l->table);
    assert_int_equal(e->made.plan->stages[e->made.plan->head_stage].rank, l->head);
    if (is_head_first)
        report(e, l->head, some, other, copy);
    report(e, l->table, tied, right, NULL);
    if (!is_head_first)
        report(e, l->head, some, other, copy);
    for (int i = 0; i < e->r.generation.n_ranks; i++)
        if (i != l->table && i != l->head)
            report(e, i, some, other, NULL);
    cs_weights_write(&e->r);
}

static void equal_copies_raise_no_alarm(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * CS_ARRAY_LEN(layouts); i++) {
        struct end e;
        begin(&e, &layouts[i / 2].spec);
        report_all(&e, &layouts[i / 2], i % 2, right);
        assert_weights(&e, e.made.graph->params[e.made.graph->tied_param].name, right, right);
        assert_null(note_of(&e));
        end(&e);
    }
}

static void copies_that_differ_are_named_with_tensor_and_ranks(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * CS_ARRAY_LEN(layouts); i++) {
        const struct layout *l = &layouts[i / 2];
        struct end e;
        begin(&e, &l->spec);
        report_all(&e, l, i % 2, wrong);
        assert_weights(&e, e.made.graph->params[e.made.graph->tied_param].name, right, wrong);
        assert_alarm(&e, right, l->table_rank, wrong, l->head_rank);
        end(&e);
    }
}

/* the copy cannot be vouched for */
static void a_copy_of_a_table_that_nobody_reports_is_an_alarm(void **state)
{
    (void)state;
    const struct layout *l = &layouts[0];
    struct end e;
    begin(&e, &l->spec);
    report(&e, l->head, 0, right, right);
    cs_weights_write(&e.r);
    assert_alarm(&e, "nothing", l->table_rank, right, l->head_rank);
    end(&e);
}

static void one_rank_has_one_copy(void **state)
{
    (void)state;
    struct end e;
    begin(&e, &(struct cs_test_spec){.is_tied = true, .n_encoders = -1});
    report(&e, 0, e.made.graph->tied_param, right, NULL);
    cs_weights_write(&e.r);
    assert_weights(&e, e.made.graph->params[e.made.graph->tied_param].name, right, NULL);
    assert_null(note_of(&e));
    end(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_copies_raise_no_alarm),
        cmocka_unit_test(copies_that_differ_are_named_with_tensor_and_ranks),
        cmocka_unit_test(a_copy_of_a_table_that_nobody_reports_is_an_alarm),
        cmocka_unit_test(one_rank_has_one_copy),
    };
    return cmocka_run_group_tests_name("runner/weights", tests, NULL, NULL);
}
