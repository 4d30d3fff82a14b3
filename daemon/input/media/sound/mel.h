/* Log-mel spectrograms as WhisperFeatureExtractor of transformers makes them: windows of n_fft samples (Hann,
 * periodic) every `hop`, mirrored at both ends, power, triangular bands on the Slaney scale from 0 to 8000 Hz
 * with Slaney's norm, log10 of at least 1e-10, nothing more than 8 below the largest value of the whole sound,
 * (x + 4) / 4. The last window is dropped. Within 1e-5 of transformers; immutable, may be shared by threads. */
#ifndef CS_INPUT_MEDIA_SOUND_MEL_H
#define CS_INPUT_MEDIA_SOUND_MEL_H

#include <stdint.h>

#include "core/base/status.h"

struct cs_mel;

/* n_fft even, 2 to CS_FOURIER_MAX */
enum cs_status cs_mel_new(int32_t rate, int32_t n_mels, int32_t n_fft, int32_t hop,
                          struct cs_mel **out, struct cs_err *err) CS_NODISCARD;
void cs_mel_free(struct cs_mel *mel); /* accepts NULL */
/* samples (n), followed by `padding` up to n_padded samples (more than n_fft / 2)
 * -> values (n_padded / hop, n_mels), caller's memory */
enum cs_status cs_mel_log(const struct cs_mel *mel, const float *samples, int64_t n,
                          int64_t n_padded, float padding, float *values,
                          struct cs_err *err) CS_NODISCARD;

#endif
