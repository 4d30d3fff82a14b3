/* What fp32 leaves open. Where a deviation is over the usual limit, the model is asked how much of that is
 * rounding: the same test runs with every weight moved by a few units in its last place, and what comes out
 * differs by the noise of this model. Some have much: towers whose values reach hundreds, decays that are
 * differences of large sums, experts that are chosen by a hair's breadth, steps of AdamW along gradients
 * that are rounding alone (transformers' own losses in fp32 are as far from those in fp64). Weights are
 * moved so far that the first gradients move as far as ours are from the golden's, which has a limit that
 * nothing widens as much: later steps may be off by what such gradients lead to. Noise is known of every
 * pair that is compared, so the first step of a model whose fifth is chaos is still held to its limit.
 *
 * bf16 leaves open far more, and every activation is rounded too: weights are moved by units of bf16, and
 * nothing but noise bounds what a limit may become. (PyTorch in bf16 on a CPU against the same goldens:
 * 1 - cosine of the worst row of logits 0.0027 for mistral, 0.017 mistral3, 0.032 qwen3.5, 0.049 mixtral,
 * 0.14 llava-clip-llama, 0.54 qwen3.5-text.) */
#include <math.h>
#include <string.h>

#include "core/base/philox.h"
#include "worker/selftest/parts.h"

struct cs_noise_entry *cs_noise_next(struct cs_noise *noise, const struct cs_selftest_pair *pair)
{
    if (noise == NULL)
        return NULL;
    struct cs_noise_entry *entry = *noise->next;
    if (entry == NULL) {
        CS_ASSERT(noise->phase == CS_NOISE_KEPT);
        entry = *noise->next = CS_NEW(noise->arena, struct cs_noise_entry);
        entry->got = CS_NEW_ARRAY(noise->arena, float, pair->n + 1);
        memcpy(entry->got, pair->got, (size_t)pair->n * sizeof *pair->got);
    }
    noise->next = &entry->after;
    return entry;
}

void cs_noise_begin(struct cs_noise *noise, enum cs_noise_phase phase)
{
    noise->phase = phase;
    noise->next = &noise->first;
}

enum cs_status cs_noise_move(struct cs_golden *golden, uint64_t seed, double units,
                             struct cs_err *err)
{
    struct cs_params *params = golden->trainer->params;
    const double unit = ldexp(1, cs_device_is_f32(golden->device) ? -24 : -9);
    for (int32_t i = 0; i < params->n; i++) {
        struct cs_shard *shard = &params->shard[i];
        const float *now;
        if (shard->is_tied_head)
            continue;
        CS_TRY(cs_params_values(params, shard, &now, err));
        float *moved = CS_NEW_ARRAY(golden->arena, float, shard->param->count + 1);
        for (int64_t k = 0; k < shard->param->count; k++) {
            const double by = units * (2 * cs_philox_uniform(seed, (uint64_t)i, (uint64_t)k) - 1);
            moved[k] = (float)((double)now[k] * (1 + by * unit));
        }
        CS_TRY(cs_params_set(params, shard, moved, err));
    }
    return CS_OK;
}
