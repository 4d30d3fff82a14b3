/* Modules as models read them. */
#include "support/arch_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

json_t *cs_test_config(const char *family)
{
    char path[256];
    json_error_t error;
    snprintf(path, sizeof(path), "tests/golden/models/%s/config.json", family);
    json_t *config = json_load_file(path, 0, &error);
    if (config == NULL)
        fail_msg("%s: %s", path, error.text);
    return config;
}

void cs_test_arch(const json_t *config, struct cs_arena *arena, struct cs_arch *arch)
{
    struct cs_err err = {.text = ""};
    memset(arch, 0, sizeof(*arch));
    if (cs_arch_from_config(config, arena, arch, &err) != CS_OK)
        fail_msg("%s", err.text);
}

void cs_test_arch_text(const char *text, struct cs_arena *arena, struct cs_arch *arch)
{
    json_t *config = json_loads(text, 0, NULL);
    assert_non_null(config);
    cs_test_arch(config, arena, arch);
    json_decref(config);
}
