/* The table of operations as data, and letters both ways. */
#include "core/sched/action.h"

const struct cs_op_info cs_op_table[CS_OP_COUNT] = {
#define X(op, letter, stream, kind, parts, group, words)                                           \
    [CS_OP_##op] = {                                                                               \
        #op,  letter, CS_STREAM_##stream, CS_OP_KIND_##kind, CS_PART_##parts, CS_GROUP_##group,    \
        words},
    CS_OPS_TABLE(X)
#undef X
};

const char *cs_op_letter(enum cs_op op)
{
    return (unsigned)op < CS_OP_COUNT ? cs_op_table[op].letter : "?";
}

enum cs_op cs_op_of_letter(char letter)
{
    int op = 0;
    while (op < CS_OP_COUNT && cs_op_table[op].letter[0] != letter)
        op++;
    return (enum cs_op)op;
}
