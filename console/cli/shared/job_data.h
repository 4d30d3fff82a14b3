/* The data of a script's job, as the commands look at it that start none. */
#ifndef CS_CONSOLE_CLI_JOB_DATA_H
#define CS_CONSOLE_CLI_JOB_DATA_H

#include "console/cli/command/cmd.h"
#include "input/data/source.h"

struct cs_job_data {
    struct cs_script_result script;
    struct cs_arena *arena;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_slot_budget budget; /* what a slot of its plan takes */
    bool has_budget;              /* false: no plan can be made, samples are held against none */
    struct cs_source *source;     /* NULL until cs_job_data_source */
};

/* Evaluates the script; set: of --set. Close d in any case. */
enum cs_status cs_job_data_open(const char *script, const struct cs_texts *set,
                                struct cs_job_data *d, struct cs_err *err) CS_NODISCARD;
/* The samples of training or evaluation, in the place of those that were open. */
enum cs_status cs_job_data_source(struct cs_job_data *d, bool is_eval,
                                  struct cs_err *err) CS_NODISCARD;
void cs_job_data_close(struct cs_job_data *d);

#endif
