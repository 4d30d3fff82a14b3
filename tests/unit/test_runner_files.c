/* The files a runner appends to: torn ends are cut, old parts fall off, nothing else is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/wire/wire.h"
#include "runner/files/journal.h"
#include "runner/files/logfile.h"
#include "runner/files/tracelog.h"
#include "support/tmpdir.h"

static int setup(void **state)
{
    *state = tmpdir_new();
    return 0;
}

static int teardown(void **state)
{
    tmpdir_free(*state);
    return 0;
}

static enum cs_status add_note(struct cs_journal *journal, const char *text)
{
    json_t *row = cs_msg_new("runner.note");
    cs_msg_set_str(row, "text", text);
    enum cs_status status = cs_journal_add(journal, row, NULL);
    json_decref(row);
    return status;
}

static void a_torn_row_is_cut_when_the_journal_is_opened(void **state)
{
    const char *path = tmpdir_path(*state, "journal");
    struct cs_journal *journal = NULL;
    char torn[9000];
    size_t n = 0;
    memset(torn, 'x', sizeof torn); /* longer than one block of the search */
    memcpy(torn, "{\"a\":1}\n{\"b\":", 13);
    tmpdir_write(path, torn, sizeof torn);
    assert_int_equal(cs_journal_open(path, &journal, NULL), CS_OK);
    assert_int_equal(add_note(journal, "later"), CS_OK);
    cs_journal_close(journal);
    char *text = tmpdir_read(path, &n);
    assert_string_equal(text, "{\"a\":1}\n{\"type\":\"runner.note\",\"text\":\"later\"}\n");
    free(text);
    tmpdir_write(path, "no newline at all", 17);
    assert_int_equal(cs_journal_open(path, &journal, NULL), CS_OK);
    cs_journal_close(journal);
    text = tmpdir_read(path, &n);
    assert_int_equal(n, 0);
    free(text);
}

/* in a child: the limit cannot be raised again */
static int fill_up(const char *path)
{
    struct cs_journal *journal = NULL;
    signal(SIGXFSZ, SIG_IGN);
    if (cs_journal_open(path, &journal, NULL) != CS_OK)
        return 1;
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 1000, .rlim_max = RLIM_INFINITY});
    char text[1000];
    memset(text, 'a', sizeof text);
    text[999] = '\0';
    int n = 0;
    for (; n < 100; n++)
        if (add_note(journal, "twenty bytes of text") != CS_OK)
            return 2;
    if (!cs_journal_waits(journal))
        return 3;
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY});
    if (cs_journal_sync(journal, NULL) != CS_OK || cs_journal_waits(journal))
        return 4; /* there is room again: every row is there */
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 1000, .rlim_max = RLIM_INFINITY});
    for (n = 0; n < 20000 && add_note(journal, text) == CS_OK;)
        n++;
    if (n < 1000 || n == 20000)
        return 5; /* memory has an end */
    cs_journal_close(journal);
    return 0;
}

static void rows_wait_for_a_full_disk_and_stay_whole(void **state)
{
    const char *path = tmpdir_path(*state, "journal");
    char pad[981];
    int status = -1;
    /* room for one short row after the last long one: 1000 = 956 + 44 */
    memset(pad, 'p', sizeof pad);
    pad[849] = '\n';
    tmpdir_write(path, pad, 850);
    pid_t pid = fork();
    if (pid == 0)
        _exit(fill_up(path));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    size_t n = 0;
    char *text = tmpdir_read(path, &n);
    int rows = 0;
    assert_int_equal(text[n - 1], '\n');
    for (char *line = text + 850; *line; line = strchr(line, '\n') + 1, rows++)
        assert_memory_equal(line, "{\"type\":\"runner.note\"", 21);
    assert_int_equal(rows, 100);
    free(text);
}

static void count_line(void *user, const char *line, size_t n)
{
    int *count = user;
    (*count)++;
    assert_true(n <= CS_LOG_LINE_MAX + 25 && memcmp(line, "2", 1) == 0 &&
                line[24] == ' '); /* with its stamp */
}

static void logs_are_split_stamped_and_rotated(void **state)
{
    char path[300];
    struct cs_logfile *log = NULL;
    int lines = 0;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/0.log", (const char *)*state);
    assert_int_equal(cs_logfile_open(path, 2000, count_line, &lines, &log, NULL), CS_OK);
    cs_logfile_write(log, "first ", 6);
    cs_logfile_write(log, "line\n\x1b[31mred\xff\nthird", 18);
    assert_int_equal(lines, 2);
    assert_string_equal(cs_logfile_last(log), "\\x1b[31mred\\xff");
    for (int i = 0; i < 200; i++)
        cs_logfile_write(log, "0123456789 0123456789 0123456789\n", 33);
    cs_logfile_close(log);
    assert_int_equal(lines, 202);
    assert_int_equal(tmpdir_count(*state), CS_LOG_FILES);
    char *text = tmpdir_read(path, &n);
    assert_true(n > 0 && n <= 2000);
    assert_memory_equal(text + 4, "-", 1); /* 2026-... */
    assert_non_null(strstr(text, "Z 0123456789"));
    free(text);
}

static void an_endless_line_is_cut(void **state)
{
    struct cs_logfile *log = NULL;
    int lines = 0;
    char *block = malloc(100000);
    memset(block, 'a', 100000);
    assert_int_equal(
        cs_logfile_open(tmpdir_path(*state, "1.log"), 1 << 20, count_line, &lines, &log, NULL),
        CS_OK);
    cs_logfile_write(log, block, 100000);
    cs_logfile_close(log);
    assert_int_equal(lines, 100000 / CS_LOG_LINE_MAX + 1);
    free(block);
}

/* --- trace ----------------------------------------------------------------------------------- */

static const struct cs_trace_stage stage = {"llm.0", 0, 0};

static enum cs_status add_step(struct cs_tracelog *log, int64_t step, int n_slots)
{
    static const struct cs_span_key key = {.letter = 'F', .is_compute = 1};
    static const struct cs_event event = {.end_ns = 5};
    const struct cs_span_keys keys = {&key, 1};
    const struct cs_span_events events = {&event, 1};
    const struct cs_trace_record record = {
        .type = CS_TRACE_STEP, .step = step, .n_slots = n_slots, .n_ranks = 1, .events = &events};
    return cs_tracelog_add(log, &record, &keys, NULL);
}

/* the steps of a trace file: first and count; every step must follow its program */
static int64_t read_steps(const char *path, int *count)
{
    size_t n = 0, at = 0;
    char *file = tmpdir_read(path, &n);
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_trace_head head;
    struct cs_trace_record record;
    int64_t first = -1;
    bool has_program[16] = {false};
    *count = 0;
    assert_int_equal(cs_trace_head_decode(file, n, arena, &head, &at, NULL), CS_OK);
    while (cs_trace_record_decode(file, n, &at, arena, &record, NULL) == CS_OK) {
        if (record.type == CS_TRACE_PROGRAM) {
            assert_false(has_program[record.n_slots]); /* written once */
            has_program[record.n_slots] = true;
            continue;
        }
        assert_true(has_program[record.n_slots]);
        first = first < 0 ? record.step : first;
        assert_int_equal(record.step, first + *count);
        (*count)++;
    }
    assert_int_equal(at, n);
    cs_arena_free(arena);
    free(file);
    return first;
}

static void the_trace_keeps_the_newest_steps(void **state)
{
    char path[300];
    struct cs_tracelog *log = NULL;
    int count = 0;
    struct cs_trace_head head = {.plan_hash = "aa", .n_ranks = 1, .n_stages = 1, .stage = &stage};
    snprintf(path, sizeof path, "%s/trace", (const char *)*state);
    assert_int_equal(cs_tracelog_open(path, &head, 10, &log, NULL), CS_OK);
    for (int64_t step = 0; step < 57; step++) {
        assert_int_equal(add_step(log, step, 1 + (int)(step % 3)), CS_OK);
        int64_t first = read_steps(path, &count);
        assert_int_equal(first + count, step + 1);
        assert_true(count < 20 && (count >= 10 || step < 10));
    }
    cs_tracelog_close(log);
    /* a torn tail is cut, the rest goes on */
    size_t n = 0;
    char *file = tmpdir_read(path, &n);
    tmpdir_write(path, file, n - 5);
    free(file);
    assert_int_equal(cs_tracelog_open(path, &head, 10, &log, NULL), CS_OK);
    assert_int_equal(add_step(log, 56, 1), CS_OK);
    assert_int_equal(read_steps(path, &count) + count, 57);
    cs_tracelog_close(log);
    /* another plan: another file */
    memcpy(head.plan_hash, "bb", 3);
    assert_int_equal(cs_tracelog_open(path, &head, 10, &log, NULL), CS_OK);
    read_steps(path, &count);
    assert_int_equal(count, 0);
    cs_tracelog_close(log);
}

#define FILES(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILES(a_torn_row_is_cut_when_the_journal_is_opened),
        FILES(rows_wait_for_a_full_disk_and_stay_whole),
        FILES(logs_are_split_stamped_and_rotated),
        FILES(an_endless_line_is_cut),
        FILES(the_trace_keeps_the_newest_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
