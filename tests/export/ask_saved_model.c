/* Asks a SavedModel about one text through TensorFlow's C API, as a program in any language can do.
   ask_saved_model DIRECTORY INPUT_OPERATION OUTPUT_OPERATION OUTPUT_INDEX TEXT KERNEL_LIBRARY...
   prints the values of a float output, one on each line. On failure it prints the reason to stderr and exits with 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

static void check(TF_Status* status, const char* what) {
  if (TF_GetCode(status) != TF_OK) {
    fprintf(stderr, "%s: %s\n", what, TF_Message(status));
    exit(1);
  }
}

static void free_string(void* data, size_t length, void* unused) {
  TF_TString_Dealloc((TF_TString*)data);
  free(data);
}

static TF_Operation* operation(TF_Graph* graph, const char* name) {
  TF_Operation* found = TF_GraphOperationByName(graph, name);
  if (!found) {
    fprintf(stderr, "no operation %s\n", name);
    exit(1);
  }
  return found;
}

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  TF_Status* status = TF_NewStatus();
  for (int i = 6; i < argc; i++) {
    TF_LoadLibrary(argv[i], status);
    check(status, argv[i]);
  }
  TF_Graph* graph = TF_NewGraph();
  TF_SessionOptions* options = TF_NewSessionOptions();
  const char* tags[] = {"serve"};
  TF_Session* session = TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, NULL, status);
  check(status, argv[1]);

  TF_TString* text = malloc(sizeof(TF_TString));
  TF_TString_Init(text);
  TF_TString_Copy(text, argv[5], strlen(argv[5]));
  const int64_t dims[] = {1};
  TF_Tensor* fed = TF_NewTensor(TF_STRING, dims, 1, text, sizeof(TF_TString), free_string, NULL);
  TF_Output input = {operation(graph, argv[2]), 0}, output = {operation(graph, argv[3]), atoi(argv[4])};
  TF_Tensor* answer = NULL;
  TF_SessionRun(session, NULL, &input, &fed, 1, &output, &answer, 1, NULL, 0, NULL, status);
  check(status, "run");
  const float* values = TF_TensorData(answer);
  for (int64_t i = 0; i < TF_TensorElementCount(answer); i++) printf("%.9g\n", values[i]);
  return 0;
}
