/* The documents of a model directory, all of them gone through by their tables: config.json with its
 * parts, preprocessor_config.json and processor_config.json of an encoder, the tokenizer's of a language
 * model. (Nothing of generation_config.json is read: it says how text is generated.) What is found is
 * for people: keys that nothing reads, spellings that do not hold, defaults that are taken. */
#ifndef CS_INPUT_DOCUMENTS_DOCUMENTS_H
#define CS_INPUT_DOCUMENTS_DOCUMENTS_H

#include "core/arch/arch.h"
#include "core/doc/findings.h"
#include "core/model/spec.h"

/* One part of a directory: kind says which, and which of the other documents belong to it. A plain
 * directory has one part, which must be of this kind. */
enum cs_status cs_documents_review(const char *dir, enum cs_module_kind kind,
                                   struct cs_findings *findings, struct cs_err *err) CS_NODISCARD;
/* the same without its config.json, which is arch */
enum cs_status cs_documents_review_beside(const char *dir, const struct cs_arch *arch,
                                          struct cs_findings *findings,
                                          struct cs_err *err) CS_NODISCARD;
/* Those of every module of a job that has a directory, and what two of them say of one thing. */
enum cs_status cs_documents_review_job(const struct cs_spec *spec, struct cs_findings *findings,
                                       struct cs_err *err) CS_NODISCARD;

#endif
