/* Makes the tables that all slots share: masks and rope angles of the kinds of attention, pixel
 * normalisation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/slot/slot.h"

static enum cs_status no_room(const struct cs_slot_rope *r, struct cs_err *err)
{
    return cs_fail(err, CS_NO_MEMORY, "no memory for the rope table of %d positions",
                   r->n_positions);
}

/* Angles in fp32 (position * inverse frequency), as transformers forms them; cosine and sine of
 * that angle are then rounded once, and once more where they are scaled. */
static enum cs_status fill_rope(const struct cs_slot_rope *r, const float *inv_freq, float **cosine,
                                float **sine, struct cs_err *err)
{
    const size_t half = (size_t)r->half, n = (size_t)r->n_positions * half;
    const double amplitude = r->rope->amplitude > 0 ? r->rope->amplitude : 1;
    *cosine = malloc((n + 1) * sizeof **cosine);
    *sine = malloc((n + 1) * sizeof **sine);
    if (*cosine == NULL || *sine == NULL)
        return no_room(r, err);
    for (size_t i = 0; i < n; i++) {
        const int32_t position = (int32_t)(i / half);
        const float angle = (float)position * inv_freq[i % half];
        const double scale =
            r->is_query ? amplitude * cs_rope_query_scale(r->rope, position) : amplitude;
        (*cosine)[i] = (float)(cos((double)angle) * scale);
        (*sine)[i] = (float)(sin((double)angle) * scale);
    }
    return CS_OK;
}

static enum cs_status fill_axes(struct cs_slot_rope *r, struct cs_err *err)
{
    if (r->rope->axes == CS_ROPE_LINE)
        return CS_OK;
    r->axis = malloc((size_t)r->half + 1);
    if (r->axis == NULL)
        return no_room(r, err);
    for (int32_t i = 0; i < r->half; i++)
        r->axis[i] = (uint8_t)cs_rope_axis(r->rope, i);
    return CS_OK;
}

static enum cs_status fill_tables(struct cs_slot_rope *r, struct cs_err *err)
{
    float *inv_freq = calloc((size_t)r->half + 1, sizeof *inv_freq);
    enum cs_status status = inv_freq != NULL ? CS_OK : no_room(r, err);
    if (status == CS_OK) {
        cs_rope_inv_freq(r->rope, inv_freq);
        status = fill_rope(r, inv_freq, &r->cos, &r->sin, err);
    }
    r->is_grown = r->rope->kind == CS_ROPE_DYNAMIC;
    if (status == CS_OK && !r->is_grown && r->n_positions > r->rope->original_positions &&
        cs_rope_inv_freq_long(r->rope, r->n_positions, inv_freq))
        status = fill_rope(r, inv_freq, &r->long_cos, &r->long_sin, err);
    if (status == CS_OK)
        status = fill_axes(r, err);
    free(inv_freq);
    return status;
}

/* The table of a rotation: one that is there already, or a new one. */
static enum cs_status add_rope(struct cs_input_tables *t, int32_t encoder, int32_t n_positions,
                               const struct cs_rope *rope, bool is_query, int32_t *index,
                               struct cs_err *err)
{
    *index = -1;
    if (rope->kind == CS_ROPE_NONE)
        return CS_OK;
    is_query = is_query && rope->query_growth > 0 && n_positions > rope->original_positions;
    for (*index = 0; *index < t->n_ropes; (*index)++)
        if (t->rope[*index].encoder == encoder && t->rope[*index].is_query == is_query &&
            cs_rope_is_same(t->rope[*index].rope, rope))
            return CS_OK;
    struct cs_slot_rope *r = &t->rope[t->n_ropes++];
    *r = (struct cs_slot_rope){.encoder = encoder,
                               .n_positions = n_positions,
                               .half = rope->dims / 2,
                               .rope = rope,
                               .is_query = is_query,
                               .planes = rope->axes == CS_ROPE_APART ? 2 : 1};
    return fill_tables(r, err);
}

static int32_t add_mask(struct cs_input_tables *t, int32_t encoder, const struct cs_attention *a)
{
    for (int32_t m = 0; m < t->n_masks; m++)
        if (t->mask[m].encoder == encoder && t->mask[m].inside == a->inside &&
            cs_mask_rule_is_same(t->mask[m].rule, a->rule))
            return m;
    t->mask[t->n_masks] =
        (struct cs_slot_mask){.encoder = encoder, .rule = a->rule, .inside = a->inside};
    return t->n_masks++;
}

/* What the kinds of attention of a module need. */
static enum cs_status add_kinds(struct cs_input_tables *t, const struct cs_module *module,
                                int32_t encoder, int32_t n_positions, struct cs_err *err)
{
    for (int32_t k = 0; k < module->arch.n_attentions; k++) {
        const struct cs_attention *attention = &module->arch.attention[k];
        struct cs_slot_kind *kind = &t->kind[module->first_attention + k];
        kind->mask = add_mask(t, encoder, attention);
        CS_TRY(add_rope(t, encoder, n_positions, &attention->rope, false, &kind->rope, err));
        CS_TRY(add_rope(t, encoder, n_positions, &attention->rope, true, &kind->rope_q, err));
    }
    return CS_OK;
}

static bool read_channels(const json_t *array, int32_t channels, float *out)
{
    if (json_array_size(array) != (size_t)channels)
        return false;
    for (int32_t c = 0; c < channels; c++) {
        const json_t *v = json_array_get(array, (size_t)c);
        if (!json_is_number(v))
            return false;
        out[c] = (float)json_number_value(v);
    }
    return true;
}

/* The processor's own keys; absent: the values of SigLIP's processor (0.5, 0.5, 1/255). */
static enum cs_status read_pixels(struct cs_input_tables *t, int32_t e,
                                  const struct cs_module *module, struct cs_err *err)
{
    const json_t *p = module->spec != NULL ? module->spec->processor : NULL;
    const int32_t channels = module->arch.channels;
    const json_t *mean = json_object_get(p, "image_mean"), *std = json_object_get(p, "image_std");
    const json_t *factor = json_object_get(p, "rescale_factor");
    if (module->arch.front.stem != CS_STEM_PATCHES)
        return CS_OK;
    if (channels < 1 || channels > 4)
        return cs_fail(err, CS_UNSUPPORTED, "module %s: pictures of %d channels", module->name,
                       channels);
    t->enc[e].rescale = json_is_false(json_object_get(p, "do_rescale")) ? 1.0f
                        : json_is_number(factor) ? (float)json_number_value(factor)
                                                 : 1.0f / 255.0f;
    const bool is_plain = json_is_false(json_object_get(p, "do_normalize"));
    for (int32_t c = 0; c < channels; c++) {
        t->enc[e].mean[c] = is_plain ? 0.0f : 0.5f;
        t->enc[e].std[c] = is_plain ? 1.0f : 0.5f;
    }
    if (is_plain)
        return CS_OK;
    if (mean != NULL && !read_channels(mean, channels, t->enc[e].mean))
        return cs_fail(err, CS_INVALID, "module %s: image_mean needs %d numbers", module->name,
                       channels);
    if (std != NULL && !read_channels(std, channels, t->enc[e].std))
        return cs_fail(err, CS_INVALID, "module %s: image_std needs %d numbers", module->name,
                       channels);
    for (int32_t c = 0; c < channels; c++)
        if (!(t->enc[e].std[c] > 0.0f))
            return cs_fail(err, CS_INVALID, "module %s: image_std[%d] is not positive",
                           module->name, c);
    return CS_OK;
}

/* v becomes 2 v - 1 */
static void centre(struct cs_input_tables *t, int32_t e, int32_t channels)
{
    for (int32_t c = 0; c < channels; c++) {
        t->enc[e].std[c] /= 2;
        t->enc[e].mean[c] += t->enc[e].std[c];
    }
}

static bool has_mean(const struct cs_chain *chain)
{
    for (int32_t i = 0; i < chain->n; i++)
        if (chain->op[i] == CS_CHAIN_MEAN)
            return true;
    return false;
}

/* of the chain in the encoder's branch that takes means, 0: none does */
static float mean_scale(const struct cs_graph *graph, const struct cs_module *encoder)
{
    for (int32_t m = 0; m < graph->n_modules; m++) {
        const struct cs_module *module = &graph->modules[m];
        if (module->branch == encoder->branch && has_mean(&module->arch.chain))
            return module->arch.chain.scale;
    }
    return 0;
}

/* whether its projector has a learned row */
static bool has_newline(const struct cs_graph *graph, const struct cs_module *encoder)
{
    for (int32_t m = 0; m < graph->n_modules; m++)
        if (graph->modules[m].branch == encoder->branch && graph->modules[m].arch.chain.has_newline)
            return true;
    return false;
}

static enum cs_status make_encoder(struct cs_input_tables *t, int32_t e, struct cs_err *err)
{
    const struct cs_module *module = cs_graph_encoder(t->graph, e);
    const int32_t items = t->budget->enc[e].items, item_rows = t->budget->enc[e].item_rows;
    if (module == NULL || items < 0 || item_rows < 1)
        return cs_fail(err, CS_PLAN, "the budgets name encoder %d with %d items of %d rows", e,
                       items, item_rows);
    const int64_t inner = cs_front_inner_most(&module->arch, t->budget->enc[e].item_patches, 1);
    CS_TRY(add_kinds(t, module, e, (int32_t)inner, err));
    t->enc[e].mean_scale = mean_scale(t->graph, module);
    t->enc[e].has_newline = has_newline(t->graph, module);
    CS_TRY(read_pixels(t, e, module, err));
    if (module->arch.front.is_centred)
        centre(t, e, module->arch.channels);
    return CS_OK;
}

enum cs_status cs_input_tables_new(const struct cs_graph *graph, struct cs_device *device,
                                   const struct cs_slot_budget *budget,
                                   struct cs_input_tables **out, struct cs_err *err)
{
    struct cs_input_tables *t = calloc(1, sizeof *t);
    *out = NULL;
    if (t == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the tables of the inputs");
    t->device = device;
    t->graph = graph;
    t->budget = budget;
    t->n_positions = budget->seq_tokens;
    const struct cs_module *llm = cs_graph_llm(graph);
    t->vocab = llm->arch.vocab;
    enum cs_status status = add_kinds(t, llm, -1, t->n_positions, err);
    for (int32_t e = 0; status == CS_OK && e < budget->n_encoders; e++)
        status = make_encoder(t, e, err);
    if (status != CS_OK) {
        cs_input_tables_free(t);
        return status;
    }
    *out = t;
    return CS_OK;
}

void cs_input_tables_free(struct cs_input_tables *tables)
{
    if (tables == NULL)
        return;
    for (int32_t r = 0; r < tables->n_ropes; r++) {
        free(tables->rope[r].cos);
        free(tables->rope[r].sin);
        free(tables->rope[r].long_cos);
        free(tables->rope[r].long_sin);
        free(tables->rope[r].axis);
    }
    free(tables);
}
