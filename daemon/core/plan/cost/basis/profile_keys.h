/* The keys of a profile, as a table for the reader of documents. */
#ifndef CS_PLAN_COST_PROFILE_KEYS_H
#define CS_PLAN_COST_PROFILE_KEYS_H

#include "core/doc/doc.h"

extern const struct cs_doc_table cs_profile_keys;

#endif
