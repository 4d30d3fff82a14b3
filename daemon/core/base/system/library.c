/* Opens libraries with dlopen and looks up their functions by a table. */
#include "core/base/system/library.h"

#include <dlfcn.h>
#include <string.h>

enum cs_status cs_library_open(const struct cs_library *library, void *table, struct cs_err *err)
{
    void *handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    if (handle == NULL)
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s are read with %s, which cannot be loaded: install the package %s (%s)",
                       library->what, library->file, library->package, dlerror());
    for (int i = 0; i < library->n_symbols; i++) {
        void *symbol = dlsym(handle, library->symbols[i].name);
        if (symbol == NULL) {
            dlclose(handle);
            return cs_fail(err, CS_UNSUPPORTED, "%s has no %s: another version than %s brings",
                           library->file, library->symbols[i].name, library->package);
        }
        memcpy((char *)table + library->symbols[i].offset, &symbol, sizeof symbol);
    }
    dlclose(handle);
    return CS_OK;
}
