/* The environment variables of Cornstarch, by one table: what each may be, and what the manual pages say of it. A
 * variable that is set but empty counts as not set. Programs call cs_environment_check first, so that whoever reads a
 * variable later, the CUDA plugin too, finds nothing but what fits. */
#ifndef CS_BASE_SYSTEM_ENVIRONMENT_H
#define CS_BASE_SYSTEM_ENVIRONMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/status.h"

enum cs_variable {
    CS_VAR_ATTENTION_KERNELS,
    CS_VAR_CHANNEL_COPIES,
    CS_VAR_CONTEXT_GROUPS,
    CS_VAR_CONTEXT_OWN_FIRST,
    CS_VAR_FEEDER,
    CS_VAR_GEMM_PLANS,
    CS_VAR_GRAPHS,
    CS_VAR_NVML,
    CS_VAR_REPLICA_CTAS,
    CS_VAR_REPLICA_STREAM,
    CS_VAR_RUNNER,
    CS_VAR_RUNTIME_DIR,
    CS_VAR_STATE_DIR,
    CS_VAR_TENSOR_COPIES,
    CS_VAR_TENSOR_GROUPS,
    CS_VAR_WORKER,
    CS_VAR_COUNT
};

/* whose manual page tells of it */
enum cs_variable_page {
    CS_VAR_OF_CONSOLE = 1 << 0,
    CS_VAR_OF_DAEMON = 1 << 1,
    CS_VAR_OF_RUNNER = 1 << 2,
    CS_VAR_OF_WORKER = 1 << 3,
};

enum { CS_VAR_WORDS_MAX = 3 };

struct cs_variable_word {
    const char *word, *help; /* word NULL: no more of them */
};

struct cs_variable_row {
    const char *name;
    unsigned pages; /* enum cs_variable_page */
    struct cs_variable_word words[CS_VAR_WORDS_MAX];
    int32_t most; /* a number from 1 to this; 0: no number */
    /* none: whether text fits that is neither one of the words nor a number. why: of a text that does not, what it
     * would have to be */
    bool (*fits)(const char *text, const char **why);
    const char *help, *dflt; /* plain text, without a full stop; dflt: what happens without it */
};

const struct cs_variable_row *cs_variable_row(enum cs_variable variable);
/* The text, in the environment itself; NULL: not set, or empty. */
const char *cs_variable_text(enum cs_variable variable);
/* Whether it is set to this word. */
bool cs_variable_is(enum cs_variable variable, const char *word);
/* The number, 0: not set. It fits (cs_environment_check). */
int32_t cs_variable_number(enum cs_variable variable);

/* CS_INVALID: its text does not fit; err says the variable, what it is and what fits. */
CS_NODISCARD enum cs_status cs_variable_check(enum cs_variable variable, struct cs_err *err);
/* All of them. Also refused: a name of ours that differs from one of the table by a letter or two. */
CS_NODISCARD enum cs_status cs_environment_check(struct cs_err *err);

#endif
