/* The GPUs view: what is unknown, which cards in which order, what there is to say without any. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "console/cli/shared/free_gpus.h"
#include "console/cli/shared/undisturbed.h"
#include "console/draw/fmt.h"
#include "console/screen/keys/keys.h"
#include "console/screen/screen.h"
#include "console/views/state/view.h"
#include "core/wire/wire.h"

static json_t *gpu(int i, double busy, int temp, int job)
{
    return json_pack("{s:o,s:s,s:f,s:I,s:I,s:i,s:i,s:i,s:i,s:[f,n,f],s:[]}", "name",
                     json_sprintf("cuda:%d", i), "model", "NVIDIA H100 80GB HBM3", "busy", busy,
                     "mem_bytes", (json_int_t)80 << 30, "mem_used_bytes",
                     ((json_int_t)10 + (i * 7) % 5) << 30, "power_mw", 100000 + (i * 3) % 4 * 1000,
                     "temp_c", temp, "job", job, "rank", job ? i : -1, "history", 0.25, 1.0,
                     "processes");
}

static void feed(struct cs_store *store, json_t *msg)
{
    struct cs_err err = {.text = ""};
    if (cs_msg_check(msg, &err) != CS_OK)
        fail_msg("%s", err.text);
    cs_store_message(store, msg);
    json_decref(msg);
}

static struct cs_store *four_cards(void)
{
    struct cs_store *store = cs_store_new();
    cs_store_connected(store, true);
    feed(store, json_pack("{s:s,s:{s:i,s:s,s:s}}", "type", "event.job", "job", "id", 7, "name", "j",
                          "state", "RUN"));
    feed(store,
         json_pack("{s:s,s:[o,o,o,o,{s:s}]}", "type", "event.gpus", "devices", gpu(0, 0.5, 50, 7),
                   gpu(1, 0.9, 40, 0), gpu(2, 0.1, 70, 7), gpu(3, 0.9, 60, 8), "name", "disk:0"));
    return store;
}

static void order_is(const struct cs_store *store, const struct cs_screen *screen,
                     const char *expected)
{
    int list[CS_STORE_GPUS];
    char text[64] = "";
    int n = cs_gpu_list(store, screen, list, CS_STORE_GPUS);
    for (int i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d", list[i]);
    assert_string_equal(text, expected);
}

static void only_devices_are_kept_and_only_what_makes_sense(void **state)
{
    (void)state;
    struct cs_store *store = four_cards();
    assert_int_equal(store->gpus.n, 4);
    const struct cs_store_gpu *g = &store->gpus.gpu[2];
    assert_true(g->busy == 0.1);
    assert_int_equal(g->job, 7);
    assert_int_equal(g->n_history, 3);
    assert_true(isnan(g->history[1]));
    assert_int_equal(g->sm_mhz, -1);
    assert_int_equal(g->n_processes, 0);
    json_t *bad =
        json_pack("{s:s,s:[{s:s,s:f,s:i,s:s,s:i}]}", "type", "event.gpus", "devices", "name",
                  "cuda:0", "busy", 7.5, "temp_c", -40, "mem_bytes", "much", "processes", 3);
    cs_store_message(store, bad); /* of a peer that keeps to no schema */
    json_decref(bad);
    g = &store->gpus.gpu[0];
    assert_int_equal(store->gpus.n, 1);
    assert_true(isnan(g->busy));
    assert_int_equal(g->temp_c, -1);
    assert_int_equal(g->mem_bytes, -1);
    assert_int_equal(g->n_processes, -1);
    cs_store_free(store);
}

static void cards_sort_and_filter(void **state)
{
    (void)state;
    struct cs_store *store = four_cards();
    struct cs_screen screen;
    struct cs_err err = {.text = ""};
    cs_screen_init(&screen, CS_GLYPHS_ASCII);
    assert_int_equal(cs_screen_keys(&screen, store, "6", &err), CS_OK);
    assert_int_equal(screen.view, CS_VIEW_GPUS);
    order_is(store, &screen, "0123");
    assert_int_equal(cs_screen_keys(&screen, store, "o", &err), CS_OK);
    order_is(store, &screen, "1302"); /* equal loads keep their order */
    assert_int_equal(cs_screen_keys(&screen, store, "o o o", &err), CS_OK);
    order_is(store, &screen, "2301");
    assert_int_equal(cs_screen_keys(&screen, store, "G m", &err), CS_OK);
    order_is(store, &screen, "2301"); /* no job is selected */
    cs_store_select(store, 7);
    order_is(store, &screen, "20");
    assert_int_equal(cs_screen_keys(&screen, store, "j j j", &err), CS_OK);
    assert_int_equal(screen.gpu_cursor, 1);
    assert_int_equal(cs_screen_keys(&screen, store, "m o", &err), CS_OK);
    order_is(store, &screen, "0123");
    cs_store_free(store);
}

static void shows(const struct cs_store *store, const char *word)
{
    struct cs_screen screen;
    struct cs_buf text = {0};
    struct cs_canvas *canvas = cs_canvas_new(100, 30);
    cs_screen_init(&screen, CS_GLYPHS_ASCII);
    screen.view = CS_VIEW_GPUS;
    cs_screen_draw(store, &screen, canvas);
    cs_canvas_text(canvas, &text);
    if (!strstr(cs_buf_str(&text), word))
        fail_msg("no '%s' in\n%s", word, cs_buf_str(&text));
    cs_buf_free(&text);
    cs_canvas_free(canvas);
}

static void without_gpus_the_reason_is_shown(void **state)
{
    (void)state;
    struct cs_store *store = cs_store_new();
    shows(store, "waiting for the daemon");
    feed(store, json_pack("{s:s,s:[],s:s}", "type", "event.gpus", "devices", "gpus_note",
                          "no NVIDIA driver: not here"));
    shows(store, "no GPUs");
    shows(store, "no NVIDIA driver: not here");
    store->is_replay = true;
    shows(store, "holds no readings");
    cs_store_free(store);
}

static void figures_on_the_screen_are_those_of_the_message(void **state)
{
    (void)state;
    struct cs_store *store = four_cards();
    shows(store, "######......  50%");
    shows(store, "10.0/80 GiB");
    shows(store, "7/2");
    shows(store, "processes  none");
    cs_store_free(store);
}

static void the_node_says_what_here_is(void **state)
{
    (void)state;
    struct cs_store *store = cs_store_new();
    json_t *msg =
        json_pack("{s:s,s:i,s:b,s:s,s:s,s:i,s:[],s:s}", "type", "node.show", "id", 1, "reply", 1,
                  "node", "n", "version", "1", "pid", 1, "devices", "here", "h200-141g:4");
    feed(store, msg);
    assert_string_equal(store->here.device->name, "h200-141g");
    assert_int_equal(store->here.devices, 4);
    cs_store_free(store);
}

static void energy_reads_like_a_sentence(void **state)
{
    (void)state;
    char text[120];
    cs_fmt_energy(text, sizeof text, 3210000, 12340, 456.4);
    assert_string_equal(text, "12.3 J/step   456 tokens/J   3.21 kJ in all");
    cs_fmt_energy(text, sizeof text, 0, 0, (double)NAN);
    assert_string_equal(text, "0.00 mJ/step   - tokens/J   0.00 mJ in all");
    cs_fmt_energy(text, sizeof text, INT64_C(9990000000000), 999600, 0.02);
    assert_string_equal(text, "1.00 kJ/step   0.02 tokens/J   9.99 GJ in all");
    cs_fmt_energy(text, sizeof text, -1, 5, 1);
    assert_string_equal(text, "");
}

/* of GPUs as node.show tells them: job of each, 0 none; without UUIDs where is_numbered */
static json_t *gpus_held_by(const int *job, int n, bool is_numbered)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        json_t *gpu = json_pack("{s:o, s:i, s:i}", "name", json_sprintf("cuda:%d", i), "index",
                                i + 1, "job", job[i]); /* the first one is hidden from the daemon */
        if (!is_numbered)
            json_object_set_new(gpu, "uuid", json_sprintf("GPU-%c%c", 'a' + i, 'a' + i));
        json_array_append_new(list, gpu);
    }
    return list;
}

static void gpus_that_jobs_leave_are_chosen(void **state)
{
    static const struct {
        int job[3];
        bool is_numbered;
        const char *chosen; /* by the user, NULL: all */
        const char *visible, *free, *held;
        int n_held;
    } rows[] = {
        {{0, 0, 0},   false, NULL,          "GPU-aa,GPU-bb,GPU-cc", "cuda:0, cuda:1, cuda:2", "",                                 0},
        {{7, 0, 0},   false, NULL,          "GPU-bb,GPU-cc",        "cuda:1, cuda:2",         "cuda:0 by job 7",                  1},
        {{7, 0, 9},   true,  NULL,          "2",                    "cuda:1",                 "cuda:0 by job 7, cuda:2 by job 9", 2},
        {{7, 0, 0},   false, "GPU-c,GPU-a", "GPU-cc",               "cuda:2",                 "cuda:0 by job 7",                  1},
        {{7, 0, 0},
         true,               "3,0,2",
         "3,2",                                                     "cuda:2, cuda:1",
         "",                                                                                                                      0}, /* 0: the daemon does not have it */
        {{7, 8, 0},   true,  "1,2",         NULL,                   "",                       "cuda:0 by job 7, cuda:1 by job 8", 2},
        {{12, 12, 4},
         false,              NULL,
         NULL,                                                      "",
         "cuda:0 by job 12, cuda:1 by job 12, cuda:2 by job 4",                                                                   3},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_free_gpus out;
        struct cs_err err = {.text = ""};
        json_t *gpus = gpus_held_by(rows[i].job, 3, rows[i].is_numbered);
        const enum cs_status status = cs_free_gpus_choose(gpus, rows[i].chosen, &out, &err);
        assert_int_equal(status, rows[i].visible != NULL ? CS_OK : CS_REFUSED);
        assert_int_equal(out.n_held, rows[i].n_held);
        assert_string_equal(cs_buf_str(&out.free), rows[i].free);
        assert_string_equal(cs_buf_str(&out.held), rows[i].held);
        if (rows[i].visible != NULL)
            assert_string_equal(cs_buf_str(&out.visible), rows[i].visible);
        else
            assert_non_null(strstr(err.text, rows[i].held));
        cs_free_gpus_clear(&out);
        json_decref(gpus);
    }
    struct cs_free_gpus none;
    assert_int_equal(cs_free_gpus_choose(NULL, NULL, &none, NULL), CS_OK); /* a node without GPUs */
    assert_int_equal(none.n + none.n_held, 0);
    cs_free_gpus_clear(&none);
}

static void add_job(json_t *jobs, int id, const char *state, const char *device, int64_t started_ns,
                    int generation)
{
    json_array_insert_new(jobs, 0,
                          json_pack("{s:i, s:s, s:s, s:I, s:i}", "id", id, "state", state, "device",
                                    device, "started_ns", (json_int_t)started_ns, "generation",
                                    generation));
}

/* What is measured from 1000 on is not that of a machine alone where a job started, also one that ended again, or
 * went on; jobs that were at work before hold other GPUs. */
static void jobs_that_work_meanwhile_are_named(void **state)
{
    json_t *before = json_array(), *after = json_array();
    struct cs_buf out = {0};
    (void)state;
    add_job(before, 1, "RUN", "cuda", 500, 0);
    add_job(before, 2, "PAUSED", "cuda", 400, 1);
    add_job(before, 3, "PAUSED", "cuda", 400, 1);
    add_job(before, 4, "DONE", "cuda", 100, 0);
    add_job(before, 5, "QUEUED", "cuda", 0, 0);
    add_job(after, 1, "RUN", "cuda", 500, 0);
    add_job(after, 2, "PAUSED", "cuda", 400, 1);
    add_job(after, 3, "PAUSED", "cuda", 400, 2);
    add_job(after, 4, "DONE", "cuda", 100, 0);
    add_job(after, 5, "STARTING", "cuda", 0, 0);
    add_job(after, 6, "FAILED", "cuda", 1200, 0);
    add_job(after, 7, "RUN", "cpu", 1200, 0);
    assert_int_equal(cs_undisturbed_by(before, after, "cuda", 1000, &out), 3);
    assert_string_equal(cs_buf_str(&out), "job 3, job 5, job 6");
    cs_buf_reset(&out);
    assert_int_equal(cs_undisturbed_by(before, after, "cpu", 1000, &out), 1);
    assert_string_equal(cs_buf_str(&out), "job 7");
    cs_buf_reset(&out);
    assert_int_equal(cs_undisturbed_by(NULL, before, "cuda", INT64_MAX, &out), 1); /* at work */
    assert_string_equal(cs_buf_str(&out), "job 1");
    cs_buf_reset(&out);
    assert_int_equal(cs_undisturbed_by(before, before, "cuda", 1000, &out), 0);
    assert_int_equal(cs_undisturbed_by(before, NULL, "cuda", 1000, &out), 0); /* no daemon */
    cs_buf_free(&out);
    json_decref(before);
    json_decref(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_devices_are_kept_and_only_what_makes_sense),
        cmocka_unit_test(cards_sort_and_filter),
        cmocka_unit_test(without_gpus_the_reason_is_shown),
        cmocka_unit_test(figures_on_the_screen_are_those_of_the_message),
        cmocka_unit_test(the_node_says_what_here_is),
        cmocka_unit_test(energy_reads_like_a_sentence),
        cmocka_unit_test(gpus_that_jobs_leave_are_chosen),
        cmocka_unit_test(jobs_that_work_meanwhile_are_named),
    };
    return cmocka_run_group_tests_name("console/gpus", tests, NULL, NULL);
}
