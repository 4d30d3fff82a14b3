/* Pieces of actions that are known by their keys, the graphs that some have, and which of both go when there is room no
 * more: part of graphs.h. One thread. */
#ifndef CS_WORKER_EXEC_GRAPH_CACHE_H
#define CS_WORKER_EXEC_GRAPH_CACHE_H

#include "worker/exec/state/graphs.h"

enum { CS_GRAPHS_BUCKETS = 1024 };

/* A key and what became of it. Entries are found by bucket and lie in order of use. */
struct cs_graph_entry {
    char key[33];
    int32_t next_in_bucket, newer, older; /* -1: none */
    uint64_t number;   /* which use of this entry: a note about an earlier one is void */
    uint32_t seen;     /* times */
    int64_t last_step; /* that used its graph */
    bool pays;         /* AUTO: its action was bound by launching */
    bool is_put_off;   /* to be captured before the next step */
    bool is_refused;   /* a capture failed */
    void *graph;       /* the device's, or NULL */
};

struct cs_graph_cache {
    struct cs_device *device;
    struct cs_graph_entry entry[CS_GRAPHS_MAX_KEYS];
    int32_t bucket[CS_GRAPHS_BUCKETS];
    int32_t n_entries, newest, oldest;
    uint64_t last_number;
    int64_t step; /* counted by who begins them */
    int32_t n_graphs;
    /* Graphs that may still run: between two burials no more than were kept, and were made since. */
    void *dead[CS_GRAPHS_MAX + CS_GRAPHS_MAX_NEW];
    int32_t n_dead;
    int64_t n_dropped; /* graphs, since the start */
};

void cs_graph_cache_open(struct cs_graph_cache *cache, struct cs_device *device);
/* the key's entry, a new one where it is not known; it is the newest then */
struct cs_graph_entry *cs_graph_cache_find(struct cs_graph_cache *cache, const char key[33]);
/* more: graphs that are going to be kept before another one */
bool cs_graph_cache_has_room(const struct cs_graph_cache *cache, int more);
/* Lets a graph go that was not used for long where there are too many. false: there is no such one. */
bool cs_graph_cache_make_room(struct cs_graph_cache *cache);
/* the graph is the entry's, and the cache's to destroy */
void cs_graph_cache_keep(struct cs_graph_cache *cache, struct cs_graph_entry *entry, void *graph);
/* Graphs go, keys stay. */
void cs_graph_cache_drop_all(struct cs_graph_cache *cache);
/* Nothing runs on the device: destroys what was let go. */
void cs_graph_cache_bury(struct cs_graph_cache *cache);

#endif
