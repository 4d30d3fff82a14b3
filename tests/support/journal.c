#include "tests/support/journal.h"

#include <math.h>

#include "core/wire/wire.h"

static const int64_t second_ns = 1000000000;
static const int64_t begin_ns = INT64_C(1785000000000000000);

/* -1 .. 1, the same for a step on every machine */
static double noise(int64_t step, uint64_t kind)
{
    uint64_t h =
        ((uint64_t)step + 1) * UINT64_C(0x9e3779b97f4a7c15) + kind * UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 31;
    h *= UINT64_C(0x94d049bb133111eb);
    h ^= h >> 29;
    return (double)(h >> 11) / (double)(UINT64_C(1) << 52) - 1;
}

static double share_of(int64_t step, int64_t steps)
{
    return (double)step / (double)(steps > 1 ? steps - 1 : 1);
}

static double loss_at(int64_t step, int64_t steps, uint64_t kind)
{
    return 2 + 3 / (1 + 40 * share_of(step, steps)) + 0.12 * noise(step, kind);
}

static void add_sources(json_t *row, int64_t step, int64_t steps)
{
    json_t *sources = json_object();
    json_object_set_new(
        sources, "coco",
        json_pack("{s:f,s:i}", "loss", loss_at(step, steps, 7) - 0.3, "tokens", 700));
    json_object_set_new(
        sources, "alpaca",
        json_pack("{s:f,s:i}", "loss", loss_at(step, steps, 8) + 0.5, "tokens", 300));
    cs_msg_set(row, "sources", sources);
}

static void add_speed(json_t *row, int64_t step, int64_t steps, double ms)
{
    const double data_ms = 2 + noise(step, 3);
    cs_msg_set(row, "parts",
               json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "forward", 0.3 * ms, "backward", 0.4 * ms,
                         "update", 0.02 * ms, "messages", 0.15 * ms, "sums", 0.03 * ms, "data",
                         data_ms, "other", 0.1 * ms - data_ms));
    cs_msg_set(row, "modules",
               json_pack("{s:{s:f,s:f},s:{s:f,s:f}}", "vision", "mfu", 8.1 / ms, "busy", 0.4, "llm",
                         "mfu", 71.0 / ms, "busy", 0.8));
    cs_msg_set_num(row, "mfu", 40 / ms);
    cs_msg_set(row, "bubble", json_pack("[f,f]", 0.3 + 0.02 * noise(step, 4), 0.26));
    cs_msg_set_int(row, "data_wait_us", (int64_t)(1e3 * data_ms));
    cs_msg_set_int(row, "mem_bytes", (INT64_C(20) << 30) + step * (INT64_C(1) << 30) / steps);
    cs_msg_set_int(row, "energy_mj", (int64_t)(1250 * ms));
}

json_t *cs_test_step_row(int64_t step, int64_t steps, bool is_eval)
{
    json_t *row = cs_msg_new("runner.step");
    const bool is_dip = step == steps / 2;
    const double warm = 20 * share_of(step, steps), ms = (is_dip ? 420 : 236) + 3 * noise(step, 2);
    cs_msg_set_int(row, "step", step);
    cs_msg_set_str(row, "kind", is_eval ? "eval" : "train");
    cs_msg_set_int(row, "wall_ns", begin_ns + step * second_ns);
    cs_msg_set_int(row, "samples", is_eval ? 64 : 32);
    cs_msg_set_int(row, "step_ns", (int64_t)(ms * 1e6));
    if (is_eval) {
        cs_msg_set_num(row, "loss", loss_at(step, steps, 9) + 0.1);
        cs_msg_set_int(row, "trained_tokens", 2000);
        cs_msg_set_int(row, "correct", (int64_t)(60 * share_of(step, steps)));
        return row;
    }
    cs_msg_set_num(row, "loss", step == steps / 3 ? (double)NAN : loss_at(step, steps, 1));
    cs_msg_set_num(row, "grad_norm",
                   step == steps * 7 / 12
                       ? 6.2
                       : 1 + 2 / (1 + 30 * share_of(step, steps)) + 0.2 * noise(step, 5));
    cs_msg_set_num(row, "lr", 1e-3 * (warm < 1 ? warm : 1 - 0.9 * share_of(step, steps)));
    cs_msg_set_int(row, "tokens", 16384 + (int64_t)(300 * noise(step, 6)));
    cs_msg_set_int(row, "trained_tokens", 1000);
    cs_msg_set_int(row, "slots", 8);
    add_sources(row, step, steps);
    add_speed(row, step, steps, ms);
    return row;
}

static void add_line(json_t *row, struct cs_buf *out)
{
    struct cs_err err = {.text = ""};
    CS_ASSERT(cs_msg_encode(row, out, &err) == CS_OK);
    json_decref(row);
}

void cs_test_journal(int64_t steps, struct cs_buf *out)
{
    const int64_t every = steps >= 8 ? steps / 8 : 1;
    for (int64_t step = 0; step < steps; step++) {
        add_line(cs_test_step_row(step, steps, false), out);
        if ((step + 1) % every == 0)
            add_line(cs_test_step_row(step, steps, true), out);
    }
}
