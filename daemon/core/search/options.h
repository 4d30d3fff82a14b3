/* What a search is asked for, before it begins. Its words are in search.h. */
#ifndef CS_SEARCH_OPTIONS_H
#define CS_SEARCH_OPTIONS_H

#include "core/search/search.h"

/* the options with their defaults filled in */
struct cs_search_options cs_search_defaults(const struct cs_search_options *options);
/* CS_PLAN: what cannot be, whatever layouts are tried; says what to change. */
enum cs_status cs_search_check_options(const struct cs_search_problem *problem,
                                       const struct cs_search_options *options,
                                       struct cs_err *err) CS_NODISCARD;

#endif
