/* LoRA adapters as PEFT keeps them: adapter_config.json and adapter_model.safetensors, whose tensors are
 * called base_model.model. + the layer's name + .lora_A.weight or .lora_B.weight. The layer is named as
 * in the whole model that the adapter was trained on: "model.layers.0...", or, inside of a composite,
 * "model.language_model.layers.0...".
 *
 * Source: peft 0.21, LoraConfig and its state dict. */
#ifndef CS_STORE_PEFT_H
#define CS_STORE_PEFT_H

#include "core/arch/read/composite.h"
#include "core/model/graph.h"
#include "store/safetensors.h"

struct cs_peft; /* an open adapter directory */

/* CS_UNSUPPORTED names what is neither LoRA nor a layer saved whole: DoRA, trained biases, dropout. */
enum cs_status cs_peft_open(const char *dir, struct cs_peft **out, struct cs_err *err) CS_NODISCARD;
void cs_peft_close(struct cs_peft *peft); /* accepts NULL */
/* Rows of "model.adapters" that describe the directory, for a module of a job; a new list. One row for
 * each rank and scale that its layers have. */
enum cs_status cs_peft_rows(const struct cs_peft *peft, const char *module, json_t **out,
                            struct cs_err *err) CS_NODISCARD;
/* Appends to rules (a list, of "model.rules") one for each tensor of the module that PEFT trained whole beside the
 * adapters (modules_to_save): it goes on. */
void cs_peft_rules(const struct cs_peft *peft, const char *module, json_t *rules);
/* The factor of a graph, or a tensor that is kept whole, by the name of its parameter in its component; family:
 * of the composite that the component is part of, NULL: none. NULL: the directory has none. */
const struct cs_st_tensor *cs_peft_find(const struct cs_peft *peft,
                                        const struct cs_composite_family *family,
                                        enum cs_module_kind kind, const char *tensor);
/* tensors that are in the directory */
int cs_peft_count(const struct cs_peft *peft);

/* Values of a factor, for cs_peft_write. */
typedef enum cs_status (*cs_peft_source)(void *user, const struct cs_param *param, float *out,
                                         struct cs_err *err);
/* Writes the adapters of a module to dir, which exists: as PEFT reads them beside the component's own
 * directory, or, with a family, beside the composite's. Layers of the module of which a tensor trains whole go
 * along (modules_to_save). base: what base_model_name_or_path says. */
enum cs_status cs_peft_write(const struct cs_graph *graph, const struct cs_module *module,
                             const struct cs_composite_family *family, const char *base,
                             cs_peft_source source, void *user, const char *dir,
                             struct cs_err *err) CS_NODISCARD;

#endif
