/* A path is followed part by part. */
#include "support/json_put.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"

void cs_test_json_put(json_t *json, const char *path, json_t *value)
{
    char part[64];
    for (;;) {
        size_t len = strcspn(path, "/");
        CS_ASSERT(len < sizeof part);
        memcpy(part, path, len);
        part[len] = 0;
        bool is_last = path[len] == 0;
        if (json_is_array(json)) {
            size_t i = (size_t)atoi(part);
            if (is_last)
                json_array_set_new(json, i, value);
            json = json_array_get(json, i);
        } else {
            if (is_last)
                json_object_set_new(json, part, value);
            json = json_object_get(json, part);
        }
        if (is_last)
            return;
        path += len + 1;
    }
}
