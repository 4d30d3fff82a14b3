/* An open model directory from the inside, private to the store: which parts a directory has, its
 * weights under component names, whether its head is its embedding. */
#ifndef CS_STORE_HFDIR_PARTS_H
#define CS_STORE_HFDIR_PARTS_H

#include "store/fsio.h"
#include "store/hf/hfdir.h"

struct cs_hfdir {
    char *path, *document; /* document: PATH/config.json */
    const char *part;
    enum cs_module_kind kind; /* of the part, where it is not "" */
    json_t *root, *config, *processor, *video;
    struct cs_composite composite; /* where part is not "" */
    bool has_tokenizer;
    struct cs_st_file **shard;
    int n_shards;
    struct cs_st_tensor *tensor; /* copies under component names, sorted by name */
    int n_tensors;
    char **name;                       /* what tensor[].name points at, in order of adding */
    const struct cs_st_tensor **stray; /* in the files, but of no part and in no index */
    int n_strays;
    bool
        is_tie_broken; /* the configuration wants one matrix, the weights hold two different ones */
};

/* hfconfig.c */
/* DIR/config.json. CS_NOT_FOUND names the model directories that dir holds instead, if any: those of
 * an export. */
enum cs_status cs_hfdir_read_document(const char *dir, json_t **root,
                                      struct cs_err *err) CS_NODISCARD;
/* dir->config from dir->root: the component's own */
enum cs_status cs_hfdir_pick_config(struct cs_hfdir *dir, struct cs_err *err) CS_NODISCARD;
bool cs_hfdir_is_of_some_part(const struct cs_hfdir *dir, const char *disk);

/* hfprocessor.c: dir->processor, dir->video */
enum cs_status cs_hfdir_read_processor(struct cs_hfdir *dir, struct cs_err *err) CS_NODISCARD;

/* hfweights.c: nothing when the directory has no weights */
enum cs_status cs_hfdir_open_weights(struct cs_hfdir *dir, struct cs_err *err) CS_NODISCARD;
void cs_hfdir_sort(struct cs_hfdir *dir);

/* hfwhole.c: experts one by one, however the files have them */
enum cs_status cs_hfdir_cut_wholes(struct cs_hfdir *dir, struct cs_err *err) CS_NODISCARD;

/* hftie.c: what the configuration and the weights say together goes to dir->config */
enum cs_status cs_hfdir_tie(struct cs_hfdir *dir, struct cs_err *err) CS_NODISCARD;

#endif
