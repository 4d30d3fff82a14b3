/* See attention_graph.h. Streams are handles of the driver, so those of the plugin's runtime are
 * good here too. */
#include "gpu/attention_graph.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

static void must(cudaError_t code, const char *what)
{
    if (code == cudaSuccess)
        return;
    printf("%s: %s\n", what, cudaGetErrorString(code));
    exit(1);
}

void att_graph_begin(void *stream)
{
    must(cudaStreamBeginCapture((cudaStream_t)stream, cudaStreamCaptureModeThreadLocal), "capture");
}

void *att_graph_end(void *stream)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    must(cudaStreamEndCapture((cudaStream_t)stream, &graph), "end of the capture");
    must(cudaGraphInstantiate(&exec, graph, 0), "instantiation of the graph");
    must(cudaGraphDestroy(graph), "graph");
    return exec;
}

void att_graph_run(void *graph, void *stream)
{
    must(cudaGraphLaunch((cudaGraphExec_t)graph, (cudaStream_t)stream), "launch of the graph");
}

void att_graph_free(void *graph)
{
    must(cudaGraphExecDestroy((cudaGraphExec_t)graph), "graph");
}
