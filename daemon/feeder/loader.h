/* Samples loaded ahead by a few threads and handed out in the order they were asked for, so that
 * what comes out does not depend on the number of threads. One thread pushes and pops. */
#ifndef CS_FEEDER_LOADER_H
#define CS_FEEDER_LOADER_H

#include "input/data/source.h"

/* One loaded sample, good (CS_OK) or bad. */
struct cs_load {
    uint64_t index;
    enum cs_status status;
    int32_t source; /* what its loss is told under (core/data/sources.h); set by the feeder */
    char *reason;   /* of a bad one; NULL: good. Owned with the rest */
    struct cs_loaded loaded; /* owned by whoever has the cs_load */
};

struct cs_loader;

/* n_threads: 1 to CS_SPEC_MAX_DATA_THREADS. depth: how many may be pending. bytes: that those which are
 * loaded may take before no other is begun; the oldest one always is, so that one of more passes. */
enum cs_status cs_loader_new(struct cs_source *source, int n_threads, int depth, int64_t bytes,
                             struct cs_loader **out, struct cs_err *err) CS_NODISCARD;
void cs_loader_free(struct cs_loader *loader); /* accepts NULL; joins the threads */
int cs_loader_room(struct cs_loader *loader);
void cs_loader_push(struct cs_loader *loader, uint64_t index); /* needs room */
/* the oldest pending one; waits */
void cs_loader_pop(struct cs_loader *loader, struct cs_load *out);
void cs_load_free(struct cs_load *load);

#endif
