/* Globs over module paths such as "vision.encoder.layers.3", and over names of parameters such as
 * "llm/model.layers.3.mlp.up_proj.weight".
 *
 * `*` matches any run of characters, dots included, also none. A component `A-B` of two whole
 * numbers matches a numeric component in that range, ends included. Everything else is literal. A
 * glob that matches a path also matches all that lies below it: "vision" matches
 * "vision.encoder.embed" but not "vision2.encoder". Pure, allocates nothing, linear in the product
 * of both lengths at worst. */
#ifndef CS_BASE_GLOB_H
#define CS_BASE_GLOB_H

#include <stdbool.h>

bool cs_glob_match(const char *glob, const char *path);
/* What is wrong with a glob, in words ("the range runs backwards"), or NULL when it is well
 * formed. */
const char *cs_glob_problem(const char *glob);

#endif
