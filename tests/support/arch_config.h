/* Modules from a config.json. What is refused fails the test with the error's text. */
#ifndef CS_TESTS_SUPPORT_ARCH_CONFIG_H
#define CS_TESTS_SUPPORT_ARCH_CONFIG_H

#include "core/arch/arch.h"

/* The config.json of a model of tests/golden; the caller owns the reference. */
json_t *cs_test_config(const char *family);
void cs_test_arch(const json_t *config, struct cs_arena *arena, struct cs_arch *arch);
/* The same of JSON text. */
void cs_test_arch_text(const char *text, struct cs_arena *arena, struct cs_arch *arch);

#endif
