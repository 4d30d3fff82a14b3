/* Export: a trained model as directories that from_pretrained accepts. */
#ifndef CS_STORE_EXPORT_H
#define CS_STORE_EXPORT_H

#include "core/base/status.h"
#include "core/model/graph.h"

/* Where export finds a parameter's values (fp32, whole): a checkpoint or the source directory. */
typedef enum cs_status (*cs_param_source)(void *user, const struct cs_param *param, float *out,
                                          struct cs_err *err);

/* What a caller should tell of an export that succeeded. */
struct cs_export_report {
    const char *whole; /* folder of the whole model, a constant, or of a tower with its projector;
                           * NULL: there is none ... */
    const char *no_whole; /* ... and why, a constant; NULL: the whole model is one directory */
    int n_params;         /* tensors with values of the model */
    int n_not_finite;     /* those that hold NaN or infinity as they are written */
    char not_finite[512]; /* the first of them with its first element */
};

/* Write DIR/{vision,llm,projector}/ (component directories that from_pretrained accepts) and the whole
 * model once more. Parts that came out of one composite directory go back as one, DIR/MODEL_TYPE/:
 * its configuration, its names of tensors, its tokenizer and processor files byte-copied. One encoder,
 * 2-layer mlp and llm from elsewhere become DIR/llava/ (LlavaForConditionalGeneration: config
 * with image_token_index and image_token_id, vision_feature_layer, strategy, weights in the
 * on-disk names, tokenizer files byte-copied, preprocessor and processor config). dtype
 * "float32"|"bfloat16". Refuses an existing non-empty DIR; writes beside it and renames, so DIR is
 * complete or absent, and what a killed export left beside it goes.
 *
 * Adapters are merged into the matrices that they stand beside, and written once more by themselves,
 * as PEFT reads them: DIR/llm.adapter/ and the like.
 *
 * Several encoders: DIR/BRANCH/ and DIR/BRANCH.projector/ each. Tensors of the source directory
 * that training does not use (a dropped last block, an attention pool) are copied along; where
 * there is no source (init "random") a dropped block is written with zeros and norm weights of one,
 * which the exported feature layer never reaches. Encoder and LLM names are spelled as the source
 * spells them. */
enum cs_status cs_export_model(const struct cs_spec *spec, const struct cs_graph *graph,
                               cs_param_source source, void *user, const char *dtype,
                               const char *dir, struct cs_export_report *report,
                               struct cs_err *err) CS_NODISCARD;

/* Whether an export to dir could be written now: dir is absent or empty, its parents are there (they
 * are made), and a directory can be made beside it. For those who have hours of work before it. */
enum cs_status cs_export_try(const char *dir, struct cs_err *err) CS_NODISCARD;

#endif
