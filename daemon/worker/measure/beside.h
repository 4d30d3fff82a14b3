/* What exchanges of devices take while these compute, and what computing takes meanwhile. */
#ifndef CS_WORKER_MEASURE_BESIDE_H
#define CS_WORKER_MEASURE_BESIDE_H

#include "worker/measure/exchanges.h"

/* The products of a layer, forward and backward, on matrices that are as wide as they are long. */
struct cs_products {
    int64_t n;
    size_t bytes, grad_bytes;                  /* of a matrix, of the gradient of one */
    void *x, *w, *y;                           /* (n, n) acts; x and w are random */
    void *dw;                                  /* (n, n) gradients */
    void *begin, *end, *side_begin, *side_end; /* events */
};

/* Of one exchange beside them, and of the computing's speed what it lost meanwhile (less than 0: noise). */
struct cs_beside_told {
    double ns, slows;
};

/* Matrices of half as many bytes as the largest exchange has. close also what was opened in part. */
enum cs_status cs_products_open(struct cs_products *products, const struct cs_link_rank *rank,
                                struct cs_err *err) CS_NODISCARD;
void cs_products_close(struct cs_products *products, const struct cs_link_rank *rank);
/* Exchanges of the largest size follow each other on their stream while products do on the device's, for longer. All
 * ranks of the group call it; alone_ns: what such an exchange takes alone. */
enum cs_status cs_beside_time(const struct cs_products *products, const struct cs_exchanges *x,
                              struct cs_link_rank *rank, int kind, int64_t alone_ns,
                              struct cs_beside_told *out, struct cs_err *err) CS_NODISCARD;

#endif
