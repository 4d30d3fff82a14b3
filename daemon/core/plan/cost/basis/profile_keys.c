/* The keys of a profile. What its lists of numbers hold is checked where they are read. */
#include "core/plan/cost/basis/profile_keys.h"

#include "core/arch/attention.h"
#include "core/plan/cost/basis/profile.h"

/* clang-format off */
static const struct cs_doc_key step_keys[] = {
    {.names = "clear", .types = CS_DOC_ANY},
    {.names = "norm", .types = CS_DOC_ANY},
    {.names = "update", .types = CS_DOC_ANY},
};
static const struct cs_doc_table step_table = {.rows = step_keys, .stride = sizeof *step_keys, .n = (int)CS_ARRAY_LEN(step_keys), .refuses_unknown = true};

static const struct cs_doc_key row_keys[] = {
    {.names = "module", .types = CS_DOC_STRING},
    {.names = "kind", .types = CS_DOC_STRING},
    {.names = "tp", .types = CS_DOC_INT, .min = 1, .max = 4096},
    {.names = "cp", .types = CS_DOC_INT, .min = 1, .max = 4096},
    {.names = "sp", .types = CS_DOC_BOOL},
    {.names = "attention", .types = CS_DOC_INT, .min = 0, .max = CS_ATTENTIONS - 1},
    {.names = "fwd", .types = CS_DOC_ANY},
    {.names = "fwd_input", .types = CS_DOC_ANY},
    {.names = "fwd_weight", .types = CS_DOC_ANY},
    {.names = "bwd_input", .types = CS_DOC_ANY},
    {.names = "bwd_weight", .types = CS_DOC_ANY},
    {.names = "bwd_weight_bf16", .types = CS_DOC_ANY},
    {.names = "prepare", .types = CS_DOC_ANY},
};
static const struct cs_doc_table row_table = {.rows = row_keys, .stride = sizeof *row_keys, .n = (int)CS_ARRAY_LEN(row_keys), .refuses_unknown = true};

static const struct cs_doc_key link_keys[] = {
    {.names = "op", .types = CS_DOC_STRING},
    {.names = "ranks", .types = CS_DOC_INT, .min = 2, .max = 4096},
    {.names = "latency_ns", .types = CS_DOC_INT, .min = 0, .max = 1000000000},
    {.names = "bytes_per_s", .types = CS_DOC_INT, .min = 1, .max = INT64_C(1) << 50},
    {.names = "points", .types = CS_DOC_LIST},
    {.names = "beside_bytes_per_s", .types = CS_DOC_INT, .min = 1, .max = INT64_C(1) << 50},
    {.names = "slows", .types = CS_DOC_NUMBER, .min = 0, .max = CS_SLOWS_MOST},
    {.names = "copy_engines", .types = CS_DOC_BOOL},
};
static const struct cs_doc_table link_table = {.rows = link_keys, .stride = sizeof *link_keys, .n = (int)CS_ARRAY_LEN(link_keys), .refuses_unknown = true};

static const struct cs_doc_key profile_keys[] = {
    {.names = "schema", .types = CS_DOC_STRING},
    {.names = "key", .types = CS_DOC_STRING},
    {.names = "device", .types = CS_DOC_STRING},
    {.names = "precision", .types = CS_DOC_STRING},
    {.names = "layers", .types = CS_DOC_LIST, .inside = &row_table},
    {.names = "step", .types = CS_DOC_OBJECT, .inside = &step_table},
    {.names = "step_bf16", .types = CS_DOC_OBJECT, .inside = &step_table},
    {.names = "links", .types = CS_DOC_LIST, .inside = &link_table},
};
const struct cs_doc_table cs_profile_keys = {.rows = profile_keys, .stride = sizeof *profile_keys, .n = (int)CS_ARRAY_LEN(profile_keys), .refuses_unknown = true};

/* clang-format on */
