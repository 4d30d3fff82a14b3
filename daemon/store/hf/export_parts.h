/* Pieces of the export, private to the store: the tensors of one
 * component, configurations, files. */
#ifndef CS_STORE_EXPORT_PARTS_H
#define CS_STORE_EXPORT_PARTS_H

#include "core/base/arena.h"
#include "store/fsio.h"
#include "store/hf/export.h"
#include "store/hf/hfdir.h"

struct cs_export {
    const struct cs_spec *spec;
    const struct cs_graph *graph;
    cs_param_source source;
    void *user;
    const char *dtype_name; /* "float32" */
    enum cs_dtype dtype;
    const char *root; /* the temporary directory everything goes to */
    struct cs_export_report *report;
    struct cs_arena *arena;
    struct cs_err *err;
};

/* Where an export goes: made in root, which becomes dir. */
struct cs_export_target {
    char dir[CS_PATH_CAP], parent[CS_PATH_CAP], root[CS_PATH_CAP];
};

/* export_target.c. end: dir is there when status was CS_OK and the result is; else nothing is left */
enum cs_status cs_export_begin(struct cs_export_target *target, const char *dir,
                               struct cs_err *err) CS_NODISCARD;
enum cs_status cs_export_end(struct cs_export_target *target, enum cs_status status,
                             struct cs_err *err) CS_NODISCARD;

/* One module of the graph with everything that its exported directory holds. */
struct cs_export_part {
    const struct cs_module *module;
    struct cs_hfdir *dir; /* its source, NULL: none */
    struct cs_st_out *tensor;
    int n_tensors;
    json_t *config; /* as written to the component directory */
    char folder[128];
};

/* export_tensors.c: trained and frozen parameters, what the graph dropped, what only
 * the source has */
enum cs_status cs_export_gather(struct cs_export *ex, struct cs_export_part *part) CS_NODISCARD;
/* name without the "vision_model." that transformers 4 put before an encoder's tensors */
const char *cs_export_plain_name(const struct cs_module *module, const char *name);

/* export_config.c */
enum cs_status cs_export_config(const struct cs_export *ex,
                                struct cs_export_part *part) CS_NODISCARD;
void cs_export_set_dtype(json_t *config, const char *dtype); /* in the spelling that it has */
json_t *cs_export_llava_config(const struct cs_export *ex, const struct cs_export_part *vision,
                               const struct cs_export_part *projector,
                               const struct cs_export_part *llm, int64_t image_token);
json_t *cs_export_llava_processor(const struct cs_export_part *vision);
/* id of the encoder's token: in the tokenizer, else in the composite the parts came
 * from; -1: none */
enum cs_status cs_export_image_token(const struct cs_export_part *vision,
                                     const struct cs_export_part *llm, int64_t *id,
                                     struct cs_err *err) CS_NODISCARD;
const char *cs_export_tokenizer_dir(const struct cs_export_part *llm); /* "" when there is none */

/* The whole model as one directory, decided before anything is written: as the composite that all
 * parts came from (export_whole.c), else as llava (export_llava.c). */
struct cs_export_whole {
    const struct cs_export_part *of[CS_MODULE_KINDS];
    const char *folder;  /* a constant; NULL: there is none */
    const char *why_not; /* a constant */
    int64_t image_token;
};

enum cs_status cs_export_whole_plan(struct cs_export *ex, const struct cs_export_part *parts,
                                    int n_parts, struct cs_export_whole *out) CS_NODISCARD;
enum cs_status cs_export_whole_write(struct cs_export *ex,
                                     const struct cs_export_whole *whole) CS_NODISCARD;
/* folder or why_not of a model that is said as llava */
enum cs_status cs_export_llava_plan(struct cs_export *ex, struct cs_export_whole *out) CS_NODISCARD;
enum cs_status cs_export_llava_files(struct cs_export *ex,
                                     const struct cs_export_whole *whole) CS_NODISCARD;

/* export_files.c: a file that the source does not have is not copied */
/* every file beside the weights and config.json that belongs to tokenizer or processors */
enum cs_status cs_export_copy_all(const struct cs_export *ex, const char *dir,
                                  const char *folder) CS_NODISCARD;
enum cs_status cs_export_copy_processors(const struct cs_export *ex, const char *dir,
                                         const char *folder) CS_NODISCARD;
enum cs_status cs_export_copy_tokenizer(const struct cs_export *ex,
                                        const struct cs_export_part *llm,
                                        const char *folder) CS_NODISCARD;
enum cs_status cs_export_copy_processor(const struct cs_export *ex,
                                        const struct cs_export_part *vision,
                                        const char *folder) CS_NODISCARD;
enum cs_status cs_export_put_json(const struct cs_export *ex, const char *folder, const char *name,
                                  const json_t *json) CS_NODISCARD;
enum cs_status cs_export_put_folder(const struct cs_export *ex, const char *folder) CS_NODISCARD;

#endif
