/* Random numbers from a seed, and random slots with their masks. */
#include "support/random_mask.h"

uint32_t cs_test_random_bits(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33);
}

int cs_test_random_between(uint64_t *seed, int lo, int hi)
{
    return lo + (int)(cs_test_random_bits(seed) % (uint32_t)(hi - lo + 1));
}

static int length_of(uint64_t *seed, const struct cs_test_mask_options *options)
{
    const bool is_short = options->has_short && cs_test_random_between(seed, 1, 3) == 1;
    return cs_test_random_between(seed, 1, is_short ? 5 : options->longest);
}

/* the i-th token of a document */
static void add_token(uint64_t *seed, int blind_of, int doc, int i, int32_t at,
                      struct cs_test_mask *m)
{
    const bool goes_on = i > 0 && cs_test_random_between(seed, 0, 5) > 0;
    m->doc[at] = doc;
    m->pos[at] = i;
    m->item[at] = goes_on ? m->item[at - 1] : cs_test_random_between(seed, 0, 1) ? doc * 8 + i : -1;
    m->word[at] =
        CS_MASK_MODALITY(cs_test_random_between(seed, 0, 2)) | (m->item[at] < 0 ? CS_MASK_TEXT : 0);
    if (cs_test_random_between(seed, 0, blind_of - 1) == 0)
        m->word[at] = 0;
}

void cs_test_random_mask(uint64_t *seed, const struct cs_test_mask_options *options,
                         struct cs_test_mask *out)
{
    const int docs = cs_test_random_between(seed, 1, options->most_docs);
    int32_t at = 0;
    for (int d = 0; d < docs; d++) {
        const int length = length_of(seed, options);
        for (int i = 0; i < length && at < CS_TEST_MASK_TOKENS; i++, at++)
            add_token(seed, options->blind_of, d, i, at, out);
    }
    const int kind = cs_test_random_between(seed, 0, CS_MASK_KINDS - 1);
    const int window = cs_test_random_between(seed, 1, 40);
    out->plan = (struct cs_mask_plan){
        .rule = {.kind = (enum cs_mask_kind)kind,
                 .window = window,
                 .prefix = cs_test_random_between(seed, 0, 50)},
        .n_tokens = at,
        .doc = out->doc,
        .pos = out->pos,
        .item = out->item,
        .word = out->word,
        .segment = out->segment
    };
    out->plan.n_segments = cs_mask_segments(out->doc, at, out->segment);
}
