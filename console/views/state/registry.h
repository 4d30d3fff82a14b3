/* Every view, in the order of the tabs: cs_view_NAME is defined in a file of this folder. */
#ifndef CS_CONSOLE_VIEWS_STATE_REGISTRY_H
#define CS_CONSOLE_VIEWS_STATE_REGISTRY_H

/* id, name (for --view too) */
#define CS_VIEW_TABLE(X)                                                                           \
    X(JOBS, jobs)                                                                                  \
    X(MODEL, model)                                                                                \
    X(PIPELINE, pipeline)                                                                          \
    X(TOKENS, tokens)                                                                              \
    X(METRICS, metrics)                                                                            \
    X(GPUS, gpus)                                                                                  \
    X(LOGS, logs)                                                                                  \
    X(LUA, lua)                                                                                    \
    X(PLAN, plan)

enum cs_view {

#define X(id, name) CS_VIEW_##id,
    CS_VIEW_TABLE(X)
#undef X
        CS_VIEW_COUNT
};

#endif
