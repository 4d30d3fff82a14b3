/* The sample data set that ships with the project: coloured shapes on a 2x2 grid, 32x32 PNG files,
 * with questions and answers in LLaVA's JSON. Same seed, same bytes.
 *
 * Every picture holds one to four different shapes (circle, square, triangle, cross) in
 * different colours, each in its own cell. Samples ask for colour, shape, place and count: four
 * conversations per training picture, four single questions per test picture. Writes
 * DIR/images/NAME.png, DIR/train.json, DIR/test.json (pictures of the test set are not in the
 * training set) and DIR/text.txt (all sentences, to build a tokenizer from). */
#ifndef CS_INPUT_MAKE_SHAPES_H
#define CS_INPUT_MAKE_SHAPES_H

#include <stdint.h>

#include "core/base/status.h"

struct cs_shapes_options {
    uint64_t seed;
    int n_train, n_test; /* pictures */
};

enum cs_status cs_shapes_make(const char *dir, const struct cs_shapes_options *options,
                              struct cs_err *err) CS_NODISCARD;

#endif
