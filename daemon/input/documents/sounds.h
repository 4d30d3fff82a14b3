/* The documents beside an encoder of sounds, for documents.c. */
#ifndef CS_INPUT_DOCUMENTS_SOUNDS_H
#define CS_INPUT_DOCUMENTS_SOUNDS_H

#include "core/arch/arch.h"

/* processor_config.json and preprocessor_config.json of dir; findings as of cs_documents_review. */
enum cs_status cs_documents_review_sounds(const char *dir, const struct cs_arch *encoder,
                                          struct cs_findings *findings,
                                          struct cs_err *err) CS_NODISCARD;

#endif
