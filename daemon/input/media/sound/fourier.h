/* Power of the frequencies of a window of samples: a Fourier transform of any even length in double, mixed
 * radix (400 = 2 * 200, 200 = 2 * 2 * 2 * 5 * 5), so that the log-mel of quiet bands beside loud ones does not
 * suffer from rounding. Immutable, may be shared by threads. */
#ifndef CS_INPUT_MEDIA_SOUND_FOURIER_H
#define CS_INPUT_MEDIA_SOUND_FOURIER_H

#include <stddef.h>

struct cs_fourier;

enum { CS_FOURIER_MAX = 16384 };

/* n even, 2 to CS_FOURIER_MAX; NULL: no memory */
struct cs_fourier *cs_fourier_new(int n);
void cs_fourier_free(struct cs_fourier *fourier); /* accepts NULL */
/* doubles of scratch memory that cs_fourier_power needs */
size_t cs_fourier_scratch(const struct cs_fourier *fourier);
/* x (n) -> power (n / 2 + 1): |X|^2 */
void cs_fourier_power(const struct cs_fourier *fourier, const double *x, double *scratch,
                      double *power);

#endif
