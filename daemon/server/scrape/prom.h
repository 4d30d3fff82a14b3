/* Writes the text format of Prometheus (version 0.0.4): families with their help and type, samples
 * with labels. Pure. */
#ifndef CS_SERVER_PROM_H
#define CS_SERVER_PROM_H

#include "core/base/buf.h"

struct cs_prom_label {
    const char *name, *value;
};

/* before the samples of a family, once; type: "gauge", "counter" */
void cs_prom_family(struct cs_buf *out, const char *name, const char *type, const char *help);
/* Labels end at a NULL name. What is not valid UTF-8 in a value is escaped. NaN and infinities are
 * values like others. */
void cs_prom_sample(struct cs_buf *out, const char *name, const struct cs_prom_label *labels,
                    double value);
/* The name and the unit that Prometheus wants for a metric: "step_ms" is cornstarch_step_seconds,
 * *scale 1e-3. */
void cs_prom_name(const char *metric, char *out, size_t cap, double *scale);

#endif
