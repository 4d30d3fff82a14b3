/* Alarms of a job: counted per rule, told when they are news, kept over runs of the job. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/system/io.h"
#include "core/wire/alarm.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "runner/state/alarms.h"
#include "runner/state/records.h"
#include "support/tmpdir.h"

/* A runner that has a directory and a journal and nothing else. */
struct watched {
    char *dir;
    struct cs_runner r;
};

static void begin(struct watched *w)
{
    *w = (struct watched){.dir = tmpdir_new()};
    snprintf(w->r.job.dir, sizeof w->r.job.dir, "%s", w->dir);
    assert_int_equal(cs_journal_open(tmpdir_path(w->dir, "journal"), &w->r.journal, NULL), CS_OK);
}

static void end(struct watched *w)
{
    cs_journal_close(w->r.journal);
    tmpdir_free(w->dir);
}

/* rows of the journal, which must all be alarms that obey the schema */
static json_t *told(const struct watched *w)
{
    size_t n = 0;
    char *text = tmpdir_read(tmpdir_path(w->dir, "journal"), &n);
    json_t *out = json_array();
    for (char *line = text, *stop; line && (stop = strchr(line, '\n')); line = stop + 1) {
        json_t *row = NULL;
        assert_int_equal(cs_line_parse(line, (size_t)(stop - line), &row, NULL), CS_OK);
        assert_int_equal(cs_msg_check(row, NULL), CS_OK);
        assert_string_equal(cs_msg_type(row), "runner.note");
        json_array_append_new(out, row);
    }
    free(text);
    return out;
}

static void repeated_alarms_are_counted_and_told_at_powers_of_ten(void **state)
{
    (void)state;
    struct watched w;
    begin(&w);
    for (int i = 0; i < 250; i++)
        cs_run_alarm(&w.r, CS_ALERT_DATA_WAIT, CS_WARN, i, "step %d waits", i);
    json_t *rows = told(&w), *list = cs_run_alarms(&w.r), *only = json_array_get(list, 0);
    assert_int_equal(json_array_size(rows), 3); /* 1, 10, 100 */
    assert_string_equal(cs_msg_str(json_array_get(rows, 2), "rule", ""), "data_wait");
    assert_int_equal(cs_msg_int(json_array_get(rows, 2), "count", 0), 100);
    assert_int_equal(cs_msg_int(json_array_get(rows, 2), "step", 0), 99);
    assert_int_equal(json_array_size(list), 1);
    assert_int_equal(cs_object_check(only, "alarm", NULL), CS_OK);
    assert_int_equal(cs_msg_int(only, "count", 0), 250);
    assert_string_equal(cs_msg_str(only, "text", ""), "step 249 waits");
    json_decref(rows);
    json_decref(list);
    end(&w);
}

static void a_worse_alarm_is_told_at_once_and_stays(void **state)
{
    (void)state;
    struct watched w;
    begin(&w);
    cs_run_alarm(&w.r, CS_ALERT_ROWS_LOST, CS_WARN, -1, "a few");
    cs_run_alarm(&w.r, CS_ALERT_ROWS_LOST, CS_ERROR, -1, "all");
    cs_run_alarm(&w.r, CS_ALERT_ROWS_LOST, CS_WARN, -1, "a few");
    json_t *rows = told(&w), *list = cs_run_alarms(&w.r), *only = json_array_get(list, 0);
    assert_int_equal(json_array_size(rows), 2);
    assert_string_equal(cs_msg_str(only, "level", ""), "error");
    assert_string_equal(cs_msg_str(only, "text", ""), "all");
    assert_int_equal(cs_msg_int(only, "count", 0), 3);
    assert_null(json_object_get(only, "step"));
    json_decref(rows);
    json_decref(list);
    end(&w);
}

static void the_next_run_of_a_job_goes_on_counting(void **state)
{
    (void)state;
    static const char before[] =
        "{\"schema\":\"cornstarch.state/1\",\"alarms\":[{\"rule\":"
        "\"divergence\",\"level\":\"warn\",\"count\":4,\"step\":7,"
        "\"text\":\"up\"},{\"rule\":\"of_tomorrow\",\"level\":\"warn\"}]}\n";
    struct watched w;
    begin(&w);
    tmpdir_write(tmpdir_path(w.dir, "state.json"), before, sizeof before - 1);
    cs_run_alarms_read(&w.r);
    cs_run_alarm(&w.r, CS_ALERT_DIVERGENCE, CS_WARN, 9, "up again");
    json_t *list = cs_run_alarms(&w.r), *only = json_array_get(list, 0);
    assert_int_equal(json_array_size(list), 1);
    assert_int_equal(cs_msg_int(only, "count", 0), 5);
    assert_string_equal(cs_msg_str(only, "text", ""), "up again");
    json_decref(list);
    end(&w);
}

static void a_list_keeps_the_newest_of_each_rule_and_knows_the_worst(void **state)
{
    (void)state;
    json_t *list = json_array();

    static const struct {
        const char *rule, *level, *text;
        int wall_ns;
    } come[] = {
        {"data_wait",  "warn",  "old",    5},
        {"files_lost", "error", "gone",   3},
        {"data_wait",  "warn",  "newer",  7},
        {"data_wait",  "warn",  "behind", 6},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(come); i++) {
        json_t *note = json_pack("{s:s,s:s,s:s,s:i}", "rule", come[i].rule, "level", come[i].level,
                                 "text", come[i].text, "wall_ns", come[i].wall_ns);
        assert_true(cs_alarm_merge(list, note));
        json_decref(note);
    }
    json_t *plain = json_pack("{s:s,s:s}", "level", "error", "text", "a note");
    assert_false(cs_alarm_merge(list, plain));
    json_decref(plain);
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(cs_msg_str(json_array_get(list, 0), "text", ""), "newer");
    assert_string_equal(cs_msg_str(cs_alarm_worst(list), "text", ""), "gone");
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeated_alarms_are_counted_and_told_at_powers_of_ten),
        cmocka_unit_test(a_worse_alarm_is_told_at_once_and_stays),
        cmocka_unit_test(the_next_run_of_a_job_goes_on_counting),
        cmocka_unit_test(a_list_keeps_the_newest_of_each_rule_and_knows_the_worst),
    };
    return cmocka_run_group_tests_name("runner/alarms", tests, NULL, NULL);
}
