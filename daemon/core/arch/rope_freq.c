/* What a rotation is: the inverse frequency of every pair, and which position turns it.
 *
 * Llama 3.1: frequencies whose wavelength is beyond original / low are divided by the factor, those
 * below original / high stay, between them the two are mixed linearly in original / wavelength.
 * YaRN: the same in the number of the pair, between those that turn high and low times over the
 * original length. LongRoPE: a divisor for every pair, another one for documents that are longer than
 * the original length. Dynamic: the same with a base that grows with the length. Proportional: pairs from a share on do not turn. */
#include <math.h>
#include <string.h>

#include "core/arch/attention.h"

static const double PI = 3.14159265358979323846;

static double llama3_scaled(const struct cs_rope *rope, double freq)
{
    double wavelength = 2 * PI / freq;
    double original = (double)rope->original_positions;
    if (wavelength < original / rope->high_freq)
        return freq;
    if (wavelength > original / rope->low_freq)
        return freq / rope->factor;
    double mix = (original / wavelength - rope->low_freq) / (rope->high_freq - rope->low_freq);
    return (1 - mix) * freq / rope->factor + mix * freq;
}

/* the pair that turns so many times over the original length */
static double yarn_pair(const struct cs_rope *rope, double turns)
{
    return rope->dims * log(rope->original_positions / (turns * 2 * PI)) / (2 * log(rope->theta));
}

static double yarn_scaled(const struct cs_rope *rope, int i, double freq)
{
    double low = yarn_pair(rope, rope->high_freq), high = yarn_pair(rope, rope->low_freq);
    if (rope->is_truncated) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, rope->dims - 1);
    if (!(high > low) && !(high < low))
        high += 0.001;
    const double mix = fmin(fmax((i - low) / (high - low), 0), 1);
    return freq / rope->factor * mix + freq * (1 - mix);
}

static double inv_freq_of(const struct cs_rope *rope, int i, const float *divisor)
{
    const double freq = pow(rope->theta, -2.0 * i / rope->dims);
    switch (rope->kind) {
    case CS_ROPE_LINEAR:
        return freq / rope->factor;
    case CS_ROPE_LLAMA3:
        return llama3_scaled(rope, freq);
    case CS_ROPE_YARN:
        return yarn_scaled(rope, i, freq);
    case CS_ROPE_LONGROPE:
        return freq / (double)divisor[i];
    case CS_ROPE_PROPORTIONAL:
        return i < (int)(rope->share * rope->dims / 2) ? freq / rope->factor : 0;
    case CS_ROPE_NONE:
    case CS_ROPE_DEFAULT:
    case CS_ROPE_DYNAMIC:
        break;
    }
    return freq;
}

/* Rotations over a grid have half the frequencies for each axis: those of a head of half the size, or
 * every second one. */
static double grid_freq_of(const struct cs_rope *rope, int32_t i)
{
    const int32_t quarter = rope->dims / 4, k = i % quarter;
    const bool is_alternate = rope->axes == CS_ROPE_ALTERNATE;
    const int32_t at = is_alternate ? 2 * k + i / quarter : k;
    return pow(rope->theta, -2.0 * at / (is_alternate ? rope->dims : rope->dims / 2));
}

void cs_rope_inv_freq(const struct cs_rope *rope, float *inv_freq)
{
    const bool is_grid = rope->axes == CS_ROPE_HALVES || rope->axes == CS_ROPE_ALTERNATE ||
                         rope->axes == CS_ROPE_APART;
    CS_ASSERT(rope->kind != CS_ROPE_NONE);
    for (int i = 0; i < rope->dims / 2; i++)
        inv_freq[i] =
            (float)(is_grid ? grid_freq_of(rope, i) : inv_freq_of(rope, i, rope->divisor));
}

/* another base: the lowest frequency becomes that of a scale by the factor times the length */
static double dynamic_theta(const struct cs_rope *rope, int32_t n_rows)
{
    const double share = (double)n_rows / rope->original_positions;
    return rope->theta *
           pow(rope->factor * share - (rope->factor - 1), (double)rope->dims / (rope->dims - 2));
}

bool cs_rope_inv_freq_long(const struct cs_rope *rope, int32_t n_rows, float *inv_freq)
{
    struct cs_rope grown = *rope;
    if (rope->kind != CS_ROPE_LONGROPE && rope->kind != CS_ROPE_DYNAMIC)
        return false;
    if (rope->kind == CS_ROPE_DYNAMIC)
        grown.theta = dynamic_theta(rope, n_rows);
    for (int i = 0; i < rope->dims / 2; i++)
        inv_freq[i] = (float)inv_freq_of(&grown, i, rope->long_divisor);
    return true;
}

int cs_rope_axis(const struct cs_rope *rope, int32_t pair)
{
    const int32_t *n = rope->section;
    const int turn = pair % 3;
    switch (rope->axes) {
    case CS_ROPE_SECTIONS:
        return pair < n[0] ? 0 : pair < n[0] + n[1] ? 1 : 2;
    case CS_ROPE_INTERLEAVED:
        return turn > 0 && pair < 3 * n[turn] ? turn : 0;
    case CS_ROPE_HALVES:
    case CS_ROPE_ALTERNATE:
        return pair < rope->dims / 4 ? 1 : 2;
    case CS_ROPE_APART:
        return pair < rope->dims / 4 ? 2 : 1;
    case CS_ROPE_LINE:
        break;
    }
    return 0;
}

double cs_rope_query_scale(const struct cs_rope *rope, int32_t position)
{
    return rope->query_growth > 0
               ? 1 + rope->query_growth *
                         log(1 + floor((double)position / rope->original_positions))
               : 1;
}

static bool is_same_number(double a, double b)
{
    return a <= b && a >= b;
}

static bool is_same_list(const float *a, const float *b, int32_t n)
{
    return a == b || (a != NULL && b != NULL && memcmp(a, b, (size_t)n * sizeof *a) == 0);
}

bool cs_rope_is_same(const struct cs_rope *a, const struct cs_rope *b)
{
    return a->kind == b->kind && a->axes == b->axes && a->dims == b->dims &&
           is_same_number(a->theta, b->theta) && is_same_number(a->factor, b->factor) &&
           is_same_number(a->low_freq, b->low_freq) && is_same_number(a->high_freq, b->high_freq) &&
           is_same_number(a->amplitude, b->amplitude) && is_same_number(a->share, b->share) &&
           is_same_number(a->query_growth, b->query_growth) && a->is_truncated == b->is_truncated &&
           a->original_positions == b->original_positions &&
           memcmp(a->section, b->section, sizeof a->section) == 0 &&
           is_same_list(a->divisor, b->divisor, a->dims / 2) &&
           is_same_list(a->long_divisor, b->long_divisor, a->dims / 2);
}
