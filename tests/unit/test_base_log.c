/* Log events: text and JSON lines, escaping, levels, rate limit. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/buf.h"
#include "core/base/system/log.h"

static int64_t fake_now_ns;

static int64_t fake_monotonic(void)
{
    return fake_now_ns;
}

static int64_t fake_wall(void)
{
    return INT64_C(1000000000123000000);
}

static void collect(void *ctx, enum cs_log_level level, const char *line, size_t n)
{
    (void)level;
    cs_buf_add(ctx, line, n);
}

static struct cs_log *open_log(struct cs_buf *out, enum cs_log_format format,
                               enum cs_log_level level)
{
    struct cs_log *log = cs_log_new("prog");
    cs_log_set_clock(log, fake_wall, fake_monotonic);
    assert_int_equal(cs_log_to_fn(log, collect, out, format, level), CS_OK);
    return log;
}

static void text_line_is_golden(void **state)
{
    (void)state;
    struct cs_buf out = {0};
    struct cs_log *log = open_log(&out, CS_LOG_TEXT, CS_DEBUG);
    const char *nothing = NULL;
    char name[] = "a b";
    bool is_new = true;
    unsigned char hash[] = {0, 0xAB, 0xFF};
    cs_log(log, CS_INFO, "job.start", CS_KV("job", 12), CS_KV("name", name),
           CS_KV("plain", "x-1/y"), CS_KV("big", UINT64_MAX), CS_KV("low", INT64_MIN),
           CS_KV("loss", 0.125), CS_KV("bad", (double)NAN), CS_KV("new", is_new),
           CS_KV("none", nothing), CS_KV("empty", ""), cs_kv_hex("hash", hash, sizeof(hash)));
    cs_log(log, CS_ERROR, "bare");
    assert_string_equal(
        out.data,
        "2001-09-09T01:46:40.123Z info job.start job=12 name=\"a b\" plain=x-1/y "
        "big=18446744073709551615 low=-9223372036854775808 loss=0.125 bad=nan new=true none=- "
        "empty=\"\" hash=00abff\n2001-09-09T01:46:40.123Z error bare\n");
    cs_log_free(log);
    cs_buf_free(&out);
}

static void json_line_is_golden(void **state)
{
    (void)state;
    struct cs_buf out = {0};
    struct cs_log *log = open_log(&out, CS_LOG_JSON, CS_DEBUG);
    unsigned char hash[] = {1, 2};
    cs_log(log, CS_WARN, "x.y", CS_KV("text", "q\"\\\n\xff"), CS_KV("loss", -(double)INFINITY),
           CS_KV("n", 3U), cs_kv_hex("hash", hash, 2), cs_kv_bool("ok", false));
    assert_string_equal(out.data,
                        "{\"time\":\"2001-09-09T01:46:40.123Z\",\"level\":\"warn\",\"program\":"
                        "\"prog\",\"event\":\"x.y\",\"text\":\"q\\\"\\\\\\u000a\\\\xff\",\"loss\":"
                        "\"-inf\",\"n\":3,\"hash\":\"0102\",\"ok\":false}\n");
    cs_log_free(log);
    cs_buf_free(&out);
}

static void hostile_text_stays_one_harmless_line(void **state)
{
    (void)state;
    struct cs_buf out = {0};
    struct cs_log *log = open_log(&out, CS_LOG_TEXT, CS_DEBUG);
    cs_log(log, CS_INFO, "evil\nevent", CS_KV("a", "\x1b[2J\r\n"),
           CS_KV("c1", "\xc2\x9b"
                       "31m"),
           CS_KV("del", "\x7f"), CS_KV("bad", "\xe2\x82"), CS_KV("fake", "x level=error"),
           CS_KV("eq", "a=b"));
    assert_non_null(strstr(out.data, " evil\\nevent a=\"\\x1b[2J\\r\\n\" c1=\"\\xc2\\x9b31m\" "
                                     "del=\"\\x7f\" bad=\"\\xe2\\x82\" fake=\"x level=error\" "
                                     "eq=\"a=b\"\n"));
    for (size_t i = 0; i + 1 < out.len; i++)
        assert_true((unsigned char)out.data[i] >= ' ' && (unsigned char)out.data[i] < 0x7F);
    cs_log_free(log);
    cs_buf_free(&out);
}

static void level_selects_per_sink(void **state)
{
    (void)state;
    struct cs_buf few = {0}, all = {0};
    struct cs_log *log = open_log(&few, CS_LOG_TEXT, CS_WARN);
    assert_int_equal(cs_log_to_fn(log, collect, &all, CS_LOG_TEXT, CS_DEBUG), CS_OK);
    cs_log(log, CS_DEBUG, "quiet");
    cs_log(log, CS_WARN, "loud");
    assert_null(strstr(few.data, "quiet"));
    assert_non_null(strstr(few.data, "loud"));
    assert_non_null(strstr(all.data, "quiet"));
    assert_non_null(strstr(all.data, "loud"));
    assert_int_equal(cs_log_to_fd(log, 2, CS_LOG_TEXT, CS_ERROR), CS_OK);
    assert_int_equal(cs_log_to_fd(log, 2, CS_LOG_TEXT, CS_ERROR), CS_OK);
    assert_int_equal(cs_log_to_fd(log, 2, CS_LOG_TEXT, CS_ERROR), CS_LIMIT);
    cs_log(NULL, CS_ERROR, "nowhere", CS_KV("a", 1));
    enum cs_log_level level;
    assert_true(cs_log_level_parse("debug", &level) && level == CS_DEBUG);
    assert_false(cs_log_level_parse("loud", &level));
    cs_log_free(log);
    cs_buf_free(&few);
    cs_buf_free(&all);
}

static size_t lines(const struct cs_buf *buf)
{
    size_t n = 0;
    for (size_t i = 0; i < buf->len; i++)
        n += buf->data[i] == '\n';
    return n;
}

static void call_site_is_limited_and_tells_what_it_dropped(void **state)
{
    (void)state;
    struct cs_buf out = {0};
    struct cs_log *log = open_log(&out, CS_LOG_TEXT, CS_INFO);
    cs_log_set_rate(log, 3, 1000);
    fake_now_ns = 5000;
    for (int i = 0; i < 12; i++) {
        if (i == 10) {
            assert_int_equal(lines(&out), 3);
            assert_null(strstr(out.data, "suppressed"));
            fake_now_ns += 1000;
        }
        cs_log(log, CS_INFO, "flood", CS_KV("i", i));
    }
    assert_int_equal(lines(&out), 5);
    assert_non_null(strstr(out.data, "flood i=10 suppressed=7\n"));
    assert_non_null(strstr(out.data, "flood i=11\n"));
    cs_log(log, CS_INFO, "elsewhere"); /* another site has its own count */
    assert_int_equal(lines(&out), 6);
    cs_log_free(log);
    cs_buf_free(&out);
}

static void descriptor_gets_whole_lines_and_may_fail(void **state)
{
    (void)state;
    int ends[2];
    char text[256] = {0};
    assert_int_equal(pipe(ends), 0);
    struct cs_log *log = cs_log_new("prog");
    assert_int_equal(cs_log_to_fd(log, 1000, CS_LOG_TEXT, CS_INFO), CS_OK);
    cs_log(log, CS_INFO, "lost"); /* a closed descriptor stops nobody */
    cs_log_set_fd(log, 1000, ends[1]);
    cs_log(log, CS_INFO, "kept", CS_KV("n", 1));
    assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, " info kept n=1\n"));
    close(ends[0]);
    close(ends[1]);
    cs_log_free(log);
}

/* The calls first: the last line of a process that died is what others tell of it. */
static void an_assertion_tells_its_calls_and_then_what_failed(void **state)
{
    char text[16384] = "";
    int end[2], how;
    (void)state;
    assert_int_equal(pipe(end), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(end[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        CS_ASSERT(end[0] < 0);
        _exit(0);
    }
    close(end[1]);
    for (ssize_t n, used = 0; (n = read(end[0], text + used, sizeof text - 1 - (size_t)used)) > 0;)
        used += n;
    close(end[0]);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
    const char *failed = strstr(text, "assertion failed: end[0] < 0\n");
    assert_non_null(failed);
    assert_string_equal(strchr(failed, '\n'), "\n");
    assert_true(strstr(text, "libc.so") != NULL && strstr(text, "libc.so") < failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_line_is_golden),
        cmocka_unit_test(json_line_is_golden),
        cmocka_unit_test(hostile_text_stays_one_harmless_line),
        cmocka_unit_test(level_selects_per_sink),
        cmocka_unit_test(call_site_is_limited_and_tells_what_it_dropped),
        cmocka_unit_test(descriptor_gets_whole_lines_and_may_fail),
        cmocka_unit_test(an_assertion_tells_its_calls_and_then_what_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
