/* All families, by what they are, and projectors, whose names are those of multi_modal_projector in
 * LlavaForConditionalGeneration. */
#include <string.h>

#include "core/arch/families/family_rows.h"

/* clang-format off */
/* the matrix `part`, with its bias */
#define LINEAR(part, name)                                                                         \
    P(PROJ_W, part, PROJECTOR, name ".weight", LINEAR, CS_DIM_TO, CS_DIM_FROM),                    \
    P(PROJ_B, part, PROJECTOR, name ".bias", LINEAR_BIAS, CS_DIM_TO)
#define NORM_W(name) T(NORM_W, PROJECTOR, name ".weight", ALWAYS, CS_DIM_NORM)
#define NORM(name)   NORM_W(name), T(NORM_B, PROJECTOR, name ".bias", ALWAYS, CS_DIM_NORM)

/* of LLaVA-NeXT, beside the projector */
#define NEWLINE T(NEWLINE, PROJECTOR, "image_newline", NEWLINE, H)

static const struct cs_tensor_row mlp_rows[] = {LINEAR(0, "linear_1"), LINEAR(1, "linear_2"), NEWLINE};
static const struct cs_tensor_row linear_rows[] = {LINEAR(0, "linear"), NEWLINE};
static const struct cs_tensor_row qwen2_vl_rows[] = {NORM("ln_q"), LINEAR(0, "mlp.0"), LINEAR(1, "mlp.2")};
static const struct cs_tensor_row qwen2_5_vl_rows[] = {NORM_W("ln_q"), LINEAR(0, "mlp.0"), LINEAR(1, "mlp.2")};
static const struct cs_tensor_row qwen3_vl_rows[] = {NORM("norm"), LINEAR(0, "linear_fc1"), LINEAR(1, "linear_fc2")};
static const struct cs_tensor_row internvl_rows[] = {NORM("layer_norm"), LINEAR(0, "linear_1"), LINEAR(1, "linear_2")};
/* the first has no bias whatever the others have */
static const struct cs_tensor_row mistral3_rows[] = {
    NORM_W("norm"), P(PROJ_W, 0, PROJECTOR, "patch_merger.merging_layer.weight", LINEAR, CS_DIM_TO, CS_DIM_FROM),
    LINEAR(1, "linear_1"), LINEAR(2, "linear_2"),
};
/* a matrix that is stored (in, out) */
static const struct cs_tensor_row gemma3_rows[] = {
    NORM_W("mm_soft_emb_norm"), T(PROJ_W, PROJECTOR, "mm_input_projection_weight", LINEAR, CS_DIM_FROM, CS_DIM_TO),
};
static const struct cs_tensor_row gemma4_rows[] = {T(PROJ_W, PROJECTOR, "embedding_projection.weight", LINEAR, CS_DIM_TO, CS_DIM_FROM)};
static const struct cs_tensor_row smolvlm_rows[] = {T(PROJ_W, PROJECTOR, "modality_projection.proj.weight", LINEAR, CS_DIM_TO, CS_DIM_FROM)};

#define LLAVA "multi_modal_projector."
static const struct cs_tensor_table tables[] = {
    {"mlp",                LLAVA, mlp_rows,        COUNT(mlp_rows)       },
    {"linear",             LLAVA, linear_rows,     COUNT(linear_rows)    },
    {"voxtral_projector",  LLAVA, mlp_rows,        COUNT(mlp_rows)       },
    {"qwen2_vl_merger",    NULL,  qwen2_vl_rows,   COUNT(qwen2_vl_rows)  },
    {"qwen2_5_vl_merger",  NULL,  qwen2_5_vl_rows, COUNT(qwen2_5_vl_rows)},
    {"qwen3_vl_merger",    NULL,  qwen3_vl_rows,   COUNT(qwen3_vl_rows)  },
    {"internvl_projector", LLAVA, internvl_rows,   COUNT(internvl_rows)  },
    {"mistral3_projector", LLAVA, mistral3_rows,   COUNT(mistral3_rows)  },
    {"gemma3_projector",   LLAVA, gemma3_rows,     COUNT(gemma3_rows)    },
    {"gemma4_projector",   NULL,  gemma4_rows,     COUNT(gemma4_rows)    },
    {"smolvlm_connector",  NULL,  smolvlm_rows,    COUNT(smolvlm_rows)   },
};

/* clang-format on */

static const struct cs_family_set projectors = {NULL, 0, tables, COUNT(tables)};
static const struct cs_family_set *const sets[] = {
    &cs_families_vision, &cs_families_grid,  &cs_families_audio, &cs_families_llm,
    &cs_families_gemma,  &cs_families_mixed, &cs_families_own,   &projectors,
};

const struct cs_family *cs_family_at(int i)
{
    for (size_t s = 0; s < CS_ARRAY_LEN(sets); i -= sets[s++]->n_families)
        if (i < sets[s]->n_families)
            return &sets[s]->family[i];
    return NULL;
}

const struct cs_family *cs_family_named(const char *model_type)
{
    const struct cs_family *family;
    for (int i = 0; (family = cs_family_at(i)) != NULL; i++)
        if (strcmp(family->model_type, model_type) == 0)
            return family;
    return NULL;
}

const struct cs_tensor_table *cs_family_tensors(const char *family)
{
    for (size_t s = 0; s < CS_ARRAY_LEN(sets); s++)
        for (int i = 0; i < sets[s]->n_tables; i++)
            if (strcmp(sets[s]->table[i].family, family) == 0)
                return &sets[s]->table[i];
    return NULL;
}
