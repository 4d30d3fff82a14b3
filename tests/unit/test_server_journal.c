/* The history and the import of journals: each row once, whatever goes wrong in between. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/wire/wire.h"
#include "server/jobs/journal.h"
#include "server/records/record.h"
#include "tests/support/tmpdir.h"

struct fixture {
    char *dir;
    struct cs_server server;
    struct cs_job job;
};

static int setup(void **state)
{
    struct cs_err err;
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->dir = tmpdir_new();
    assert_int_equal(cs_db_open(tmpdir_path(f->dir, "history.db"), &f->server.db, &err), CS_OK);
    f->job.server = &f->server;
    snprintf(f->job.row.dir, sizeof(f->job.row.dir), "%s", f->dir);
    snprintf(f->job.row.state, sizeof(f->job.row.state), "RUN");
    f->job.row.exact_match = (double)NAN;
    f->job.row.id = 1;
    assert_int_equal(cs_db_job_put(f->server.db, &f->job.row, true, &err), CS_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    cs_db_close(f->server.db);
    json_decref(f->job.alarms);
    json_decref(f->job.last_row[0]);
    json_decref(f->job.last_row[1]);
    tmpdir_free(f->dir);
    free(f);
    return 0;
}

static void append(const struct fixture *f, const char *text)
{
    FILE *file = fopen(tmpdir_path(f->dir, "journal"), "a");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void append_step(const struct fixture *f, int64_t step, const char *loss)
{
    char line[300];
    snprintf(line, sizeof(line),
             "{\"type\":\"runner.step\",\"job\":1,\"step\":%lld,\"kind\":\"train\",\"loss\":%s,"
             "\"bubble\":[0.25,0.75],\"step_ns\":2000000}\n",
             (long long)step, loss);
    append(f, line);
}

static void import(struct fixture *f)
{
    struct cs_err err = {0};
    if (cs_journal_import(&f->job, &err) != CS_OK)
        fail_msg("%s", err.text);
}

static json_t *rows_of(const struct fixture *f, int64_t after, int64_t limit, int64_t *next)
{
    struct cs_err err;
    json_t *rows = json_array();
    const struct cs_step_query query = {.job = 1, .after = after, .limit = limit, .every = 1};
    assert_int_equal(cs_db_steps(f->server.db, &query, rows, next, &err), CS_OK);
    return rows;
}

static size_t n_rows(const struct fixture *f)
{
    int64_t next;
    json_t *rows = rows_of(f, -1, 1000000, &next);
    size_t n = json_array_size(rows);
    assert_int_equal(next, -1);
    json_decref(rows);
    return n;
}

static size_t n_notes(const struct fixture *f)
{
    struct cs_err err;
    json_t *rows = json_array();
    assert_int_equal(cs_db_notes(f->server.db, 1, 10000, rows, &err), CS_OK);
    size_t n = json_array_size(rows);
    json_decref(rows);
    return n;
}

static void rows_are_imported_once_and_the_job_follows(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 10; i++)
        append_step(f, i, "0.5");
    append(f,
           "{\"type\":\"runner.note\",\"level\":\"info\",\"text\":\"hear hear\",\"wall_ns\":5}\n");
    append(f,
           "{\"type\":\"runner.state\",\"state\":\"PAUSED\",\"reason\":\"asked\",\"wall_ns\":6}\n");
    for (int i = 0; i < 3; i++)
        import(f);
    assert_int_equal(n_rows(f), 10);
    assert_int_equal(n_notes(f), 2);
    assert_int_equal(f->job.row.step, 10);
    assert_true(f->job.row.loss == 0.5);
    int64_t next;
    json_t *rows = rows_of(f, 8, 10, &next), *row = json_array_get(rows, 0);
    assert_int_equal(json_array_size(rows), 1);
    assert_int_equal(json_integer_value(json_array_get(row, 0)), 9);
    assert_true(json_real_value(json_array_get(row, 5)) == 2.0); /* step_ms */
    assert_true(json_real_value(json_array_get(row, 6)) == 0.5); /* mean of the bubbles */
    json_decref(rows);
}

/* A checkpoint and a calibration tell the state anew: it is no news to people. */
static void a_state_that_goes_on_is_noted_once(void **state)
{
    struct fixture *f = *state;
    const char *const states[] = {"STARTING", "RUN", "RUN", "PAUSED", "RUN", "RUN"};
    for (size_t i = 0; i < CS_ARRAY_LEN(states); i++) {
        char line[200];
        snprintf(line, sizeof line,
                 "{\"type\":\"runner.state\",\"state\":\"%s\",\"reason\":\"\",\"wall_ns\":%zu}\n",
                 states[i], i + 1);
        append(f, line);
        import(f);
    }
    assert_int_equal(n_notes(f), 4);
    append(f, "{\"type\":\"runner.state\",\"state\":\"RUN\",\"reason\":\"again\",\"wall_ns\":9}\n");
    import(f);
    assert_int_equal(n_notes(f), 5);
}

static void steps_done_again_after_a_resume_replace_the_first_ones(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 6; i++)
        append_step(f, i, "1.0");
    import(f);
    for (int i = 3; i < 8; i++)
        append_step(f, i, "2.0");
    import(f);
    assert_int_equal(n_rows(f), 8);
    int64_t next;
    json_t *rows = rows_of(f, -1, 100, &next);
    for (size_t i = 0; i < 8; i++)
        assert_true(json_real_value(json_array_get(json_array_get(rows, i), 2)) ==
                    (i < 3 ? 1.0 : 2.0));
    json_decref(rows);
}

static void a_row_half_written_waits_and_a_torn_one_is_skipped(void **state)
{
    struct fixture *f = *state;
    append_step(f, 0, "1.0");
    append(f, "{\"type\":\"runner.step\",\"step\":1,");
    import(f);
    assert_int_equal(n_rows(f), 1);
    append(f, "\"kind\":\"train\",\"loss\":1}\n{\"type\":\"runner.st\n\xff\xfe\n{\"type\":\"runner."
              "step\"}\n");
    append_step(f, 2, "1.0");
    import(f);
    assert_int_equal(n_rows(f), 3);
}

static void a_diverged_loss_is_kept_as_a_word_and_an_unknown_one_as_null(void **state)
{
    struct fixture *f = *state;
    int64_t next;
    append_step(f, 0, "\"nan\"");
    append_step(f, 1, "\"-inf\"");
    append(f,
           "{\"type\":\"runner.step\",\"step\":1,\"kind\":\"eval\",\"correct\":3,\"samples\":4}\n");
    import(f);
    json_t *rows = rows_of(f, -1, 10, &next);
    assert_int_equal(json_array_size(rows), 3);
    assert_string_equal(json_string_value(json_array_get(json_array_get(rows, 0), 2)), "nan");
    assert_string_equal(json_string_value(json_array_get(json_array_get(rows, 1), 2)), "-inf");
    assert_true(json_is_null(json_array_get(json_array_get(rows, 2), 2)));
    assert_true(json_real_value(json_array_get(json_array_get(rows, 2), 7)) == 0.75);
    assert_true(f->job.row.exact_match == 0.75);
    json_decref(rows);
}

static void check_sources(const struct fixture *f)
{
    int64_t next;
    json_t *rows = rows_of(f, -1, 10, &next), *columns = cs_db_step_columns(false);
    json_t *want = json_pack("{s:{s:f,s:i},s:{s:f,s:i}}", "a", "loss", 1.5, "tokens", 3, "\"b\"",
                             "loss", 0.25, "tokens", 9);
    size_t at = 0;
    while (strcmp(json_string_value(json_array_get(columns, at)), "sources") != 0)
        at++;
    const size_t balance = json_array_size(columns) - 1;
    assert_string_equal(json_string_value(json_array_get(columns, balance)), "aux_loss");
    assert_true(json_real_value(json_array_get(json_array_get(rows, 0), balance)) == 2.5);
    assert_true(json_is_null(json_array_get(json_array_get(rows, 1), balance)));
    assert_int_equal(json_array_size(rows), 2);
    assert_true(json_equal(json_array_get(json_array_get(rows, 0), at), want));
    assert_true(json_is_null(json_array_get(json_array_get(rows, 1), at)));
    json_decref(rows);
    json_decref(columns);
    json_decref(want);
}

static void losses_of_sources_are_kept_also_in_an_older_history(void **state)
{
    struct fixture *f = *state;
    struct cs_err err = {0};
    sqlite3 *old = NULL;
    cs_db_close(f->server.db);
    assert_int_equal(sqlite3_open(tmpdir_path(f->dir, "history.db"), &old), SQLITE_OK);
    assert_int_equal(sqlite3_exec(old,
                                  "ALTER TABLE step DROP COLUMN sources; "
                                  "ALTER TABLE step DROP COLUMN context; "
                                  "ALTER TABLE step DROP COLUMN mem_bytes; "
                                  "ALTER TABLE step DROP COLUMN mfu; "
                                  "ALTER TABLE step DROP COLUMN parts; "
                                  "ALTER TABLE step DROP COLUMN modules; "
                                  "ALTER TABLE step DROP COLUMN sequence; "
                                  "ALTER TABLE step DROP COLUMN aux_loss; "
                                  "ALTER TABLE job DROP COLUMN tags; "
                                  "ALTER TABLE job DROP COLUMN note; "
                                  "ALTER TABLE job DROP COLUMN stopped_ns; "
                                  "ALTER TABLE job DROP COLUMN stop; "
                                  "ALTER TABLE job DROP COLUMN bubble; PRAGMA user_version = 2;",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(old);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(cs_db_open(tmpdir_path(f->dir, "history.db"), &f->server.db, &err), CS_OK);
        if (round == 0) {
            append(f,
                   "{\"type\":\"runner.step\",\"job\":1,\"step\":0,\"kind\":\"train\",\"loss\":1.0,"
                   "\"sources\":{\"a\":{\"loss\":1.5,\"tokens\":3},\"\\\"b\\\"\":{\"loss\":0.25,"
                   "\"tokens\":9}},\"aux_loss\":2.5}\n");
            append_step(f, 1, "1.0");
            import(f);
        }
        check_sources(f);
        if (round == 0)
            cs_db_close(f->server.db);
    }
}

static void series_are_cut_between_steps(void **state)
{
    struct fixture *f = *state;
    int64_t next;
    for (int i = 0; i < 4; i++) {
        append_step(f, i, "1.0");
        char line[100];
        snprintf(line, sizeof(line), "{\"type\":\"runner.step\",\"step\":%d,\"kind\":\"eval\"}\n",
                 i);
        append(f, line);
    }
    import(f);

    static const struct {
        int64_t after, limit, n, next;
    } cases[] = {
        {-1, 8, 8, -1},
        {-1, 7, 6, 2 },
        {-1, 3, 2, 0 },
        {-1, 1, 2, 0 },
        {2,  1, 2, -1},
        {3,  5, 0, -1}
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(cases); i++) {
        json_t *rows = rows_of(f, cases[i].after, cases[i].limit, &next);
        assert_int_equal(json_array_size(rows), cases[i].n);
        assert_int_equal(next, cases[i].next);
        json_decref(rows);
    }
}

static void a_row_longer_than_the_window_is_read(void **state)
{
    struct fixture *f = *state;
    struct cs_buf line = {0};
    cs_buf_adds(&line, "{\"type\":\"runner.step\",\"step\":0,\"kind\":\"train\",\"bubble\":[0.5");
    for (int i = 0; i < 60000; i++)
        cs_buf_adds(&line, ",0.50000000000000000000000000000000000000000000000001");
    cs_buf_adds(&line, "]}\n");
    append(f, cs_buf_str(&line));
    append_step(f, 1, "1.0");
    import(f);
    assert_int_equal(n_rows(f), 2);
    cs_buf_free(&line);
}

/* The file size limit plays the full disk: the import fails as a whole and is whole later. */
static void a_full_disk_loses_nothing(void **state)
{
    struct fixture *f = *state;
    struct rlimit limit, small;
    struct cs_err err;
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 5000; i++)
        append_step(f, i, "1.0");
    append(f, "{\"type\":\"runner.note\",\"level\":\"info\",\"text\":\"one\"}\n");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 100000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum cs_status first = cs_journal_import(&f->job, &err),
                   again = cs_journal_import(&f->job, NULL);
    int64_t offset = f->job.row.journal_offset, step = f->job.row.step;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_not_equal(first, CS_OK);
    assert_non_null(strstr(err.text, "database"));
    assert_int_not_equal(again, CS_OK);
    assert_int_equal(offset, 0);
    assert_int_equal(step, 0);
    import(f);
    assert_int_equal(n_rows(f), 5000);
    assert_int_equal(n_notes(f), 1);
    assert_int_equal(f->job.row.step, 5000);
}

static void a_journal_that_was_replaced_is_read_from_its_start(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 10; i++)
        append_step(f, i, "1.0");
    import(f);
    unlink(tmpdir_path(f->dir, "journal"));
    append_step(f, 0, "3.0");
    import(f);
    assert_int_equal(n_rows(f), 10);
    assert_true(f->job.row.loss == 3.0);
}

static void a_damaged_history_is_told_and_not_touched(void **state)
{
    struct fixture *f = *state;
    struct cs_db *db = NULL;
    struct cs_err err;
    tmpdir_write(tmpdir_path(f->dir, "bad.db"), "this is not a database, whatever it is", 38);
    assert_int_not_equal(cs_db_open(tmpdir_path(f->dir, "bad.db"), &db, &err), CS_OK);
    assert_non_null(strstr(err.text, "not a database"));
    for (int i = 0; i < 3000; i++)
        append_step(f, i, "1.0");
    import(f);
    cs_db_close(f->server.db);
    f->server.db = NULL;
    size_t bytes;
    char *content = tmpdir_read(tmpdir_path(f->dir, "history.db"), &bytes);
    assert_true(bytes > 40000);
    memset(content + 8192, 0xa5, 20000);
    tmpdir_write(tmpdir_path(f->dir, "history.db"), content, bytes);
    free(content);
    assert_int_equal(cs_db_open(tmpdir_path(f->dir, "history.db"), &db, &err), CS_CORRUPT);
    assert_non_null(strstr(err.text, "damaged"));
}

static void the_last_number_outlives_its_job(void **state)
{
    struct fixture *f = *state;
    struct cs_err err;
    struct cs_job_row row = f->job.row;
    int64_t last = 0;
    bool has = true;
    row.id = 41;
    assert_int_equal(cs_db_job_put(f->server.db, &row, true, &err), CS_OK);
    row.step = 7; /* again: the same one */
    assert_int_equal(cs_db_job_put(f->server.db, &row, false, &err), CS_OK);
    assert_int_equal(cs_db_last_id(f->server.db, &last, &err), CS_OK);
    assert_int_equal(last, 41);
    assert_int_equal(cs_db_has_job(f->server.db, 41, &has, &err), CS_OK);
    assert_true(has);
    assert_int_equal(cs_db_has_job(f->server.db, 40, &has, &err), CS_OK);
    assert_false(has);
}

/* Every field that no journal tells goes there and back. */
static void a_record_holds_what_the_daemon_alone_knows(void **state)
{
    struct fixture *f = *state;
    struct cs_err err;
    struct cs_job_row row, back;
    cs_row_init(&row);
    cs_row_init(&back);
    assert_int_equal(cs_record_read(f->dir, &back, &err), CS_NOT_FOUND);
    for (int i = 0; i < cs_n_row_fields; i++) {
        const struct cs_row_field *field = &cs_row_fields[i];
        if (field->type == CS_ROW_TEXT)
            snprintf(cs_row_text(&row, field), field->cap, "t%d \"", i);
        else if (field->type == CS_ROW_INT)
            *cs_row_int(&row, field) = 1000 + i;
        else
            *cs_row_real(&row, field) = i + 0.5;
    }
    assert_int_equal(cs_record_write(f->dir, &row, &err), CS_OK);
    assert_int_equal(cs_record_read(f->dir, &back, &err), CS_OK);
    for (int i = 0; i < cs_n_row_fields; i++) {
        const struct cs_row_field *field = &cs_row_fields[i];
        if (field->is_derived)
            continue;
        if (field->type == CS_ROW_TEXT)
            assert_string_equal(cs_row_text(&back, field), cs_row_text(&row, field));
        else if (field->type == CS_ROW_INT)
            assert_int_equal(*cs_row_int(&back, field), *cs_row_int(&row, field));
        else
            assert_true(*cs_row_real(&back, field) == *cs_row_real(&row, field));
    }
    tmpdir_write(tmpdir_path(f->dir, "job.json"), "{\"name\":", 8);
    assert_int_not_equal(cs_record_read(f->dir, &back, &err), CS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_are_imported_once_and_the_job_follows, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_state_that_goes_on_is_noted_once, setup, teardown),
        cmocka_unit_test_setup_teardown(steps_done_again_after_a_resume_replace_the_first_ones,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_row_half_written_waits_and_a_torn_one_is_skipped, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_diverged_loss_is_kept_as_a_word_and_an_unknown_one_as_null, setup, teardown),
        cmocka_unit_test_setup_teardown(losses_of_sources_are_kept_also_in_an_older_history, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(series_are_cut_between_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(a_row_longer_than_the_window_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_loses_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_journal_that_was_replaced_is_read_from_its_start, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_damaged_history_is_told_and_not_touched, setup, teardown),
        cmocka_unit_test_setup_teardown(the_last_number_outlives_its_job, setup, teardown),
        cmocka_unit_test_setup_teardown(a_record_holds_what_the_daemon_alone_knows, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
