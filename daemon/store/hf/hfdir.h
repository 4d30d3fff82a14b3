/* Hugging Face model directories: find config, tokenizer and weights; load tensors by name.
 *
 * Weights are model.safetensors or model.safetensors.index.json with shards (weight_map entries may
 * not leave the directory). pytorch_model.bin is refused with advice. A composite directory
 * (core/arch/read/composite.h) can be read as components: "vision" or "audio", "projector" and "llm", in all
 * tensor-name layouts that are known of it.
 *
 * Whether the head of a language model is its embedding follows from configuration and weights
 * together, as in transformers 5: tie_word_embeddings of the model or of the composite asks for it;
 * two different matrices stay two all the same, and where only one is there it is both. What is
 * read here (cs_hfdir_config, cs_hfdir_tensor) is the outcome. */
#ifndef CS_STORE_HFDIR_H
#define CS_STORE_HFDIR_H

#include <jansson.h>

#include "core/arch/read/composite.h"
#include "core/base/status.h"
#include "core/model/graph.h"
#include "store/safetensors.h"

struct cs_hfdir;

/* part: "" for a plain directory, "vision" or "audio", "projector", "llm" of a composite; "" of a tower that is
 * saved with its projector: the tower */
enum cs_status cs_hfdir_open(const char *dir, const char *part, struct cs_hfdir **out,
                             struct cs_err *err) CS_NODISCARD;
/* the same, with the part chosen: by kind where the directory is a composite, else "" */
enum cs_status cs_hfdir_open_kind(const char *dir, enum cs_module_kind kind, struct cs_hfdir **out,
                                  struct cs_err *err) CS_NODISCARD;
/* the parts that cs_hfdir_open takes for this directory, in the order of the data: "" alone, or those
 * of a composite */
enum cs_status cs_hfdir_list(const char *dir, const char *parts[CS_MODULE_KINDS], int *n,
                             struct cs_err *err) CS_NODISCARD;
/* what cs_hfdir_open calls a part of such a composite, NULL: it has none */
const char *cs_hfdir_part(const struct cs_composite_family *family, enum cs_module_kind kind);
/* The modules that the directory holds, as a job's document has them ("model.modules"), in the order of
 * the data: its weights, configurations and processor. A new list. */
enum cs_status cs_hfdir_modules(const char *dir, json_t **out, struct cs_err *err) CS_NODISCARD;
void cs_hfdir_close(struct cs_hfdir *dir); /* accepts NULL */
const char *cs_hfdir_path(const struct cs_hfdir *dir);
/* config.json as it is in the directory: of the composite when the directory is one */
const json_t *cs_hfdir_root_config(const struct cs_hfdir *dir);
/* tensors of this component under their component names, sorted; 0 when there are no weights */
int cs_hfdir_count(const struct cs_hfdir *dir);
const struct cs_st_tensor *cs_hfdir_at(const struct cs_hfdir *dir, int index);
const json_t *cs_hfdir_config(const struct cs_hfdir *dir); /* the component's own config */
/* what the root of a composite says beside its parts, NULL for a plain directory */
const struct cs_composite *cs_hfdir_composite(const struct cs_hfdir *dir);
/* that configuration as an architecture; findings may be NULL */
enum cs_status cs_hfdir_arch(const struct cs_hfdir *dir, struct cs_findings *findings,
                             struct cs_arena *arena, struct cs_arch *out,
                             struct cs_err *err) CS_NODISCARD;
/* of a projector; strings live as long as dir */
enum cs_status cs_hfdir_projector(const struct cs_hfdir *dir, struct cs_projector *out,
                                  struct cs_err *err) CS_NODISCARD;
/* the same as a job says it of its module: family, layers, activation, bias, keeps_class, group, newline,
 * norm_eps; a new object */
enum cs_status cs_hfdir_projector_settings(const struct cs_hfdir *dir, json_t **out,
                                           struct cs_err *err) CS_NODISCARD;
/* a language model whose configuration asks for one matrix where its weights hold two different ones */
bool cs_hfdir_is_tie_broken(const struct cs_hfdir *dir);
/* the projector of a tower that is there without it: another one stands behind it */
bool cs_hfdir_is_bare(const struct cs_hfdir *dir);
/* tensors of the files that belong to no part, or are in no index: under their names in the file */
int cs_hfdir_count_strays(const struct cs_hfdir *dir);
const struct cs_st_tensor *cs_hfdir_stray(const struct cs_hfdir *dir, int index);

/* Weights of this component: the files that hold any of the directory's, bytes of its own, the type of
 * most of its elements and how many types there are. */
struct cs_hfdir_weights {
    int n_files, n_types;
    uint64_t bytes;
    enum cs_dtype dtype;
};

void cs_hfdir_weights(const struct cs_hfdir *dir, struct cs_hfdir_weights *out);
/* processor_config.json's image part (of a part "audio", or where there is none: its feature_extractor), else
 * preprocessor_config.json; NULL when absent */
const json_t *cs_hfdir_processor(const struct cs_hfdir *dir);
/* processor_config.json's video part, else video_preprocessor_config.json, else the same as for pictures */
const json_t *cs_hfdir_video(const struct cs_hfdir *dir);
bool cs_hfdir_has_tokenizer(const struct cs_hfdir *dir);
/* What the component calls a tensor that files or classes call `disk`: `prefix` and the result; NULL: it
 * is of another part. */
const char *cs_hfdir_own_name(const struct cs_hfdir *dir, const char *disk, const char **prefix);
/* whether a file of the directory holds a tensor of that very name */
bool cs_hfdir_has_disk_name(const struct cs_hfdir *dir, const char *disk);
/* name, then alt, NULL when both are missing */
const struct cs_st_tensor *cs_hfdir_tensor(const struct cs_hfdir *dir, const char *name,
                                           const char *alt);
/* The tensor has the shape of a parameter of that role, or holds its matrices turned (hfturned.c). */
bool cs_hfdir_fits(const struct cs_st_tensor *tensor, enum cs_param_role role, const int64_t *dim,
                   int n_dims);
/* all of its values, of that shape and not turned, on several threads; CS_CORRUPT where one is NaN or
 * infinite */
enum cs_status cs_hfdir_read(const struct cs_st_tensor *tensor, enum cs_param_role role,
                             const int64_t *dim, int n_dims, int threads, float *out,
                             struct cs_err *err) CS_NODISCARD;
/* every tensor of the arch is present with the right shape; names the first three that are not.
 * A directory without weights opens (configuration and tokenizer are of use) but fails here. */
enum cs_status cs_hfdir_check(const struct cs_hfdir *dir, const struct cs_arch *arch,
                              struct cs_err *err) CS_NODISCARD;
/* Reads every weight of the arch that is there: CS_CORRUPT names the first that is NaN or infinite. */
enum cs_status cs_hfdir_check_values(const struct cs_hfdir *dir, const struct cs_arch *arch,
                                     struct cs_err *err) CS_NODISCARD;

/* A tensor of the component that its architecture does not read. */
struct cs_unread {
    const char *name;
    const char *why; /* that changes nothing; "": nobody knows what it is for */
};

/* how many, in the order of their names */
int cs_hfdir_unread(const struct cs_hfdir *dir, const struct cs_arch *arch, struct cs_arena *arena,
                    struct cs_unread **out);
/* whether the class that transformers has for the arch does not have this tensor either */
bool cs_hfdir_is_foreign(const struct cs_arch *arch, const char *name);

#endif
