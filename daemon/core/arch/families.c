/* All families, by what they are, and projectors, whose names are those of multi_modal_projector in
 * LlavaForConditionalGeneration. */
#include <string.h>

#include "core/arch/family_rows.h"

static const struct cs_tensor_row mlp_rows[] = {
    P(PROJ_W, 0, PROJECTOR, "linear_1.weight", LINEAR, CS_DIM_TO, CS_DIM_FROM),
    P(PROJ_B, 0, PROJECTOR, "linear_1.bias", LINEAR_BIAS, CS_DIM_TO),
    P(PROJ_W, 1, PROJECTOR, "linear_2.weight", LINEAR, CS_DIM_TO, CS_DIM_FROM),
    P(PROJ_B, 1, PROJECTOR, "linear_2.bias", LINEAR_BIAS, CS_DIM_TO),
};

static const struct cs_tensor_row linear_rows[] = {
    T(PROJ_W, PROJECTOR, "linear.weight", LINEAR, CS_DIM_TO, CS_DIM_FROM),
    T(PROJ_B, PROJECTOR, "linear.bias", LINEAR_BIAS, CS_DIM_TO),
};

static const struct cs_tensor_table tables[] = {
    {"mlp",    "multi_modal_projector.", mlp_rows,    COUNT(mlp_rows)   },
    {"linear", "multi_modal_projector.", linear_rows, COUNT(linear_rows)},
};

static const struct cs_family_set projectors = {NULL, 0, tables, COUNT(tables)};
static const struct cs_family_set *const sets[] = {
    &cs_families_vision,
    &cs_families_llm,
    &cs_families_gemma,
    &projectors,
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
