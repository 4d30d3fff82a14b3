/* Steps for tests: a manifest with slots in plain memory, filled sample by sample. */
#ifndef CS_TESTS_SUPPORT_STEP_H
#define CS_TESTS_SUPPORT_STEP_H

#include "core/data/slot.h"

enum { CS_TEST_SLOTS = 8 };

struct cs_test_step {
    struct cs_manifest manifest;
    struct cs_slot_counts *counts; /* (n_slots) of the manifest */
    struct cs_slot slot[CS_TEST_SLOTS];
    struct cs_slot_layout layout;
    struct cs_slot_budget budget;
    void *memory;
};

/* n_slots empty slots; kind CS_STEP_TRAIN. Free with cs_test_step_free. */
void cs_test_step_new(struct cs_test_step *step, const struct cs_slot_budget *budget, int n_slots,
                      int64_t number);
void cs_test_step_free(struct cs_test_step *step);
/* One sample of n rows. label: already shifted, -1 where nothing is predicted. encoder (may be
 * NULL): per row the encoder that fills it, -1 none; whole items only. Pixels of its items stay as
 * they are (0). */
void cs_test_step_add(struct cs_test_step *step, int slot, int n, const int32_t *id,
                      const int32_t *label, const int8_t *encoder);
/* A step like training data, a function of seed: 1 to 4 samples in every slot, prompts without
 * labels, random pixels. images: share of samples with an
 * item of each encoder, in percent; 0 also leaves the last slot empty. */
void cs_test_step_random(struct cs_test_step *step, uint64_t seed, int vocab, int images);
/* 1 to 4 such samples in one slot. */
void cs_test_step_fill(struct cs_test_step *step, int slot, uint64_t seed, int vocab, int images);

#endif
