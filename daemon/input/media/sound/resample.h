/* Samples at another rate, block by block, with libsoxr at its high quality (as librosa's soxr_hq). */
#ifndef CS_INPUT_MEDIA_SOUND_RESAMPLE_H
#define CS_INPUT_MEDIA_SOUND_RESAMPLE_H

#include <stdint.h>

#include "core/base/status.h"

struct cs_resampler;

/* Equal rates: the samples pass as they are, and libsoxr is not needed. */
enum cs_status cs_resampler_new(int32_t from_rate, int32_t to_rate, struct cs_resampler **out,
                                struct cs_err *err) CS_NODISCARD;
/* Takes all n samples (n 0: the end; what is left comes out), appends at out up to `room`; *made says how many.
 * What comes later than room is dropped. */
enum cs_status cs_resampler_push(struct cs_resampler *resampler, const float *in, int64_t n,
                                 float *out, int64_t room, int64_t *made,
                                 struct cs_err *err) CS_NODISCARD;
void cs_resampler_free(struct cs_resampler *resampler); /* accepts NULL */

#endif
