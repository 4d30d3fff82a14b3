/* The test of a family, from the directory to its outcome. */
#include <math.h>
#include <string.h>

#include "worker/selftest/parts.h"

/* One run of the test; weights are moved where it has a seed. */
struct run {
    struct cs_selftest_request asked;
    struct cs_device *device;
    struct cs_noise *noise;
    uint64_t seed;
    double units;
};

static enum cs_status run(const struct run *r, struct cs_selftest *out, struct cs_err *err)
{
    struct cs_golden golden;
    *out = (struct cs_selftest){.n_checks = 0};
    enum cs_status status =
        cs_golden_open(r->asked.dir, r->asked.adapter, NULL, false, r->device, &golden, err);
    golden.noise = r->noise;
    if (status == CS_OK && r->seed != 0)
        status = cs_noise_move(&golden, r->seed, r->units, err);
    if (status == CS_OK) {
        cs_golden_name(&golden, out);
        status = cs_golden_has(&golden, "in.probe") ? cs_golden_check_tower(&golden, out, err)
                                                    : cs_golden_check_text(&golden, out, err);
    }
    if (status == CS_OK && r->asked.written != NULL)
        status = cs_golden_write(&golden, r->asked.written, err);
    cs_golden_close(&golden);
    return status;
}

static bool is_good(const struct cs_selftest *test)
{
    bool is_good = test->n_checks > 0;
    for (int i = 0; i < test->n_checks; i++)
        is_good &= cs_selftest_is_good(&test->check[i]);
    return is_good;
}

static const struct cs_selftest_check *gradients_of(const struct cs_selftest *test)
{
    for (int i = 0; i < test->n_checks; i++)
        if (strcmp(test->check[i].what, "gradients") == 0)
            return &test->check[i];
    return NULL;
}

/* How much further weights must move for gradients to move as far as they deviate. */
static double scale_of(const struct cs_selftest *kept, const struct cs_selftest *moved, double most)
{
    const struct cs_selftest_check *ours = gradients_of(kept), *theirs = gradients_of(moved);
    if (ours == NULL || theirs == NULL || !(theirs->noise > 0))
        return 1;
    return fmin(most, fmax(1, ours->deviation / theirs->noise));
}

/* The same with what rounding does to this model. */
static enum cs_status run_with_noise(const struct run *plain, struct cs_selftest *out,
                                     struct cs_err *err)
{
    enum { MOVES = 8, UNITS = 8, MOST = 16, BF16_UNITS = 1, BF16_MOST = 4 };

    struct cs_noise noise = {.arena = cs_arena_new(0)};
    struct cs_selftest moved;
    struct run r = *plain;
    r.noise = &noise;
    const bool is_f32 = cs_device_is_f32(plain->device);
    r.units = is_f32 ? UNITS : BF16_UNITS;
    r.asked.written = NULL;
    cs_noise_begin(&noise, CS_NOISE_KEPT);
    enum cs_status status = run(&r, out, err);
    for (r.seed = 1; status == CS_OK && r.seed <= MOVES; r.seed++) {
        cs_noise_begin(&noise, CS_NOISE_MOVED);
        status = run(&r, &moved, err);
        if (status == CS_OK && r.seed == 1)
            r.units *= scale_of(out, &moved, is_f32 ? MOST : BF16_MOST);
    }
    cs_noise_begin(&noise, CS_NOISE_KNOWN);
    r.seed = 0;
    if (status == CS_OK)
        status = run(&r, out, err);
    cs_arena_free(noise.arena);
    return status;
}

enum cs_status cs_selftest_family(const struct cs_selftest_request *request,
                                  struct cs_device *device, struct cs_selftest *out,
                                  struct cs_err *err)
{
    const struct run plain = {.asked = *request, .device = device};
    if (request->layout != NULL)
        return cs_golden_check_layout(request, device, out, err);
    CS_TRY(run(&plain, out, err));
    return is_good(out) ? CS_OK : run_with_noise(&plain, out, err);
}
