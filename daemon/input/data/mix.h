/* The further sources that a job's data names: data.mix. */
#ifndef CS_INPUT_DATA_MIX_H
#define CS_INPUT_DATA_MIX_H

#include "core/model/spec.h"
#include "input/data/dataset.h"

/* The options of a data set as the job says them; what they point to lives in the arena and in data. CS_INVALID:
 * data.mix is no list of {json, images, weight, name}. */
enum cs_status cs_mix_options(const struct cs_spec_data *data, struct cs_arena *arena,
                              struct cs_dataset_options *out, struct cs_err *err) CS_NODISCARD;

#endif
