/* Attention of one long sequence over the GPUs of a context, beside the same on one GPU:
 *
 *   bench_worker_context [ranks=2] [tokens=32768,65536] [layouts=causal,packed,video] [rules=lpt,zigzag]
 *                        [groups=0] [heads=32] [kv=8] [dim=128] [precision=bf16] [warm=3] [rounds=9]
 *                        [exchange=keys] [own_first=0] [one=1] [device=cuda]
 *
 * exchange: keys, heads, or both as keys,heads (plan.context_exchange). own_first: 1: tiles of the own keys first, while
 * others come, 0: all at once; or both as 0,1. groups: of heads, that travel one after the other: 0 as in jobs, or a list as 1,2,4,8. one: also one GPU
 * alone. Prints milliseconds of the slowest rank and TFLOP/s a GPU of the pairs that the mask allows (4 D a
 * pair and head forward, 10 D backward); share: of one GPU's rate; balance: most pairs of a rank over the
 * mean. The peer is cp_attention.py (scripts/bench --parts context runs both). device=lazy tries the program
 * without a GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/context_lab.h"

enum { MAX_LIST = 8, WIDTH = 64 };

struct list {
    char text[MAX_LIST][WIDTH];
    int n;
};

static void complain(const char *what)
{
    fprintf(stderr, "bench_worker_context: %s: see the comment at its head\n", what);
    exit(1);
}

static struct list split(const char *text)
{
    struct list l = {.n = 0};
    for (const char *at = text; *at != '\0';) {
        const size_t n = strcspn(at, ",");
        if (l.n == MAX_LIST || n >= WIDTH || n == 0)
            complain(text);
        memcpy(l.text[l.n++], at, n);
        at += n + (at[n] == ',');
    }
    return l;
}

/* the options in the order of their defaults */
enum {
    RANKS,
    TOKENS,
    LAYOUTS,
    RULES,
    GROUPS,
    EXCHANGE,
    OWN_FIRST,
    HEADS,
    KV,
    DIM,
    PRECISION,
    WARM,
    ROUNDS,
    ONE,
    DEVICE,
    N
};

static const char *const names[N] = {"ranks",     "tokens",    "layouts", "rules", "groups",
                                     "exchange",  "own_first", "heads",   "kv",    "dim",
                                     "precision", "warm",      "rounds",  "one",   "device"};
static const char *value[N] = {"2",          "32768,65536", "causal,packed,video",
                               "lpt,zigzag", "0",           "keys",
                               "0",          "32",          "8",
                               "128",        "bf16",        "3",
                               "9",          "1",           "cuda"};

static int number(int option)
{
    const int n = atoi(value[option]);
    if (n < 0 || (n == 0 && option != WARM && option != ONE))
        complain(names[option]);
    return n;
}

static void read_options(int argc, char **argv)
{
    for (int a = 1; a < argc; a++) {
        int found = -1;
        for (int i = 0; i < N; i++) {
            const size_t n = strlen(names[i]);
            if (strncmp(argv[a], names[i], n) == 0 && argv[a][n] == '=')
                found = i;
        }
        if (found < 0)
            complain(argv[a]);
        value[found] = strchr(argv[a], '=') + 1;
    }
}

enum { MAX_CASES = 128 };

/* What is run in one go. */
struct cases {
    struct cs_context_lab lab[MAX_CASES];
    int n;
};

static double rate(const struct cs_context_lab *lab, const struct cs_context_lab_result *r,
                   double ms, int flops)
{
    return (double)flops * lab->dim * lab->heads * (double)r->pairs / lab->ranks / ms / 1e9;
}

/* one: of the same on one GPU, NULL: not measured */
static void print(const struct cs_context_lab *lab, const struct cs_context_lab_result *r,
                  const struct cs_context_lab_result *one)
{
    int64_t most = 0;
    for (int k = 0; k < lab->ranks; k++)
        most = r->rank_pairs[k] > most ? r->rank_pairs[k] : most;
    printf("%-7s %6d %-8s %s%s groups %d  fwd %8.3f ms %5.0f", lab->layout, lab->tokens,
           lab->ranks > 1 ? lab->rule : "one GPU", lab->moves_heads ? "heads" : "keys ",
           lab->own_first ? ", own first" : "", lab->groups, r->fwd_ms, rate(lab, r, r->fwd_ms, 4));
    if (one != NULL)
        printf(" (%.3f)", one->fwd_ms / r->fwd_ms / lab->ranks);
    printf("  bwd %8.3f ms %5.0f", r->bwd_ms, rate(lab, r, r->bwd_ms, 10));
    if (one != NULL)
        printf(" (%.3f)", one->bwd_ms / r->bwd_ms / lab->ranks);
    printf(" TFLOP/s a GPU  balance %.4f\n",
           (double)most * lab->ranks / (double)(r->pairs > 0 ? r->pairs : 1));
    fflush(stdout);
}

static void add(struct cases *c, const struct cs_context_lab *lab)
{
    if (c->n == MAX_CASES)
        complain("too many cases");
    c->lab[c->n++] = *lab;
}

static bool moves_heads(const char *exchange)
{
    if (strcmp(exchange, "keys") != 0 && strcmp(exchange, "heads") != 0)
        complain(exchange);
    return strcmp(exchange, "heads") == 0;
}

static bool is_own_first(const char *asked)
{
    if (strcmp(asked, "0") != 0 && strcmp(asked, "1") != 0)
        complain(asked);
    return strcmp(asked, "1") == 0;
}

static void add_rules(struct cases *c, struct cs_context_lab lab)
{
    static struct list rules; /* names are borrowed */
    const struct list groups = split(value[GROUPS]), exchanges = split(value[EXCHANGE]),
                      locals = split(value[OWN_FIRST]);
    rules = split(value[RULES]);
    for (int r = 0; r < rules.n; r++)
        for (int x = 0; x < exchanges.n; x++)
            for (int g = 0; g < groups.n; g++)
                for (int l = 0; l < locals.n; l++) {
                    lab.rule = rules.text[r];
                    lab.moves_heads = moves_heads(exchanges.text[x]);
                    lab.groups = atoi(groups.text[g]);
                    lab.own_first = is_own_first(locals.text[l]);
                    add(c, &lab);
                }
}

static void make_cases(struct cases *alone, struct cases *all)
{
    static struct list tokens, layouts; /* names are borrowed */
    tokens = split(value[TOKENS]);
    layouts = split(value[LAYOUTS]);
    for (int t = 0; t < tokens.n; t++)
        for (int l = 0; l < layouts.n; l++) {
            struct cs_context_lab lab = {.device = value[DEVICE],
                                         .precision = value[PRECISION],
                                         .layout = layouts.text[l],
                                         .rule = "lpt",
                                         .ranks = 1,
                                         .tokens = atoi(tokens.text[t]),
                                         .heads = number(HEADS),
                                         .kv_heads = number(KV),
                                         .dim = number(DIM),
                                         .warm = number(WARM),
                                         .rounds = number(ROUNDS)};
            add(alone, &lab);
            lab.ranks = number(RANKS);
            add_rules(all, lab);
        }
}

int main(int argc, char **argv)
{
    static struct cases alone, all;
    static struct cs_context_lab_result one[MAX_CASES], many[MAX_CASES];
    read_options(argc, argv);
    make_cases(&alone, &all);
    const bool has_one = number(ONE) > 0;
    if (has_one)
        cs_context_lab_run(alone.lab, alone.n, NULL, one);
    for (int i = 0; has_one && i < alone.n; i++)
        print(&alone.lab[i], &one[i], NULL);
    cs_context_lab_run(all.lab, all.n, NULL, many);
    for (int i = 0; i < all.n; i++)
        print(&all.lab[i], &many[i], has_one ? &one[i / (all.n / alone.n)] : NULL);
    return 0;
}
