/* Capturing what an operator launches, for tests: the plugin has no such call yet. Ends the program
 * on errors. */
#ifndef CS_TESTS_GPU_ATTENTION_GRAPH_H
#define CS_TESTS_GPU_ATTENTION_GRAPH_H

#ifdef __cplusplus
extern "C" {
#endif

void att_graph_begin(void *stream);
void *att_graph_end(void *stream);
void att_graph_run(void *graph, void *stream);
void att_graph_free(void *graph);

#ifdef __cplusplus
}
#endif

#endif
