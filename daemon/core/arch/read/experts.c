/* Which blocks of a model have experts, and what its config says of them. Sources: Qwen3MoeConfig,
 * Qwen3MoeDecoderLayer and MixtralConfig of transformers 5. */
#include "core/arch/experts.h"

#include "core/arch/read/read.h"

struct reader {
    const struct cs_config_source *config;
    struct cs_arch *arch;
    struct cs_err *err;
    uint8_t *ffn; /* (n_layers) */
};

/* mlp_only_layers: blocks that have an MLP whatever else is said */
static enum cs_status take_dense(const struct reader *r)
{
    char at[512];
    const json_t *list = cs_doc_get(r->config->json, "mlp_only_layers", NULL);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *block = json_array_get(list, i);
        if (!json_is_integer(block) || json_integer_value(block) < 0)
            return cs_fail(r->err, CS_INVALID, "%smlp_only_layers[%zu] is not the index of a layer",
                           cs_model_at(r->config, at), i);
        if (json_integer_value(block) < r->arch->n_layers)
            r->ffn[json_integer_value(block)] = CS_FFN_DENSE;
    }
    return CS_OK;
}

/* The loss of balance is part of the class's loss where the router's logits are asked for. */
static void take_balance(const struct reader *r)
{
    if (!json_is_true(cs_doc_get(r->config->json, "output_router_logits", NULL)))
        r->arch->experts.balance = 0;
}

enum cs_status cs_experts_read(const struct cs_config_source *config, struct cs_arena *arena,
                               struct cs_arch *arch, struct cs_err *err)
{
    char at[512];
    const json_t *every = cs_doc_get(config->json, "decoder_sparse_step", NULL);
    const int32_t step = every != NULL ? (int32_t)json_integer_value(every) : 1;
    struct reader r = {config, arch, err, NULL};
    if (arch->experts.n == 0)
        return CS_OK;
    if (arch->experts.top_k > arch->experts.n)
        return cs_fail(err, CS_INVALID, "%snum_experts_per_tok %d is more than the %d experts",
                       cs_model_at(config, at), arch->experts.top_k, arch->experts.n);
    r.ffn = CS_NEW_ARRAY(arena, uint8_t, arch->n_layers);
    for (int32_t i = 0; i < arch->n_layers; i++)
        r.ffn[i] = (i + 1) % step == 0 ? CS_FFN_EXPERTS : CS_FFN_DENSE;
    CS_TRY(take_dense(&r));
    take_balance(&r);
    arch->block_ffn = r.ffn;
    return CS_OK;
}
