// The few functions of the CUDA driver's API that torch calls to ask whether a context exists.
//
// There is one device with one context, always there. Written from the public CUDA Driver API
// reference; everything else of it is a generated stub.

static int the_context;

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    if (device != 0) return 101;
    *flags = 0;
    *active = 1;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    if (device != 0) return 101;
    *context = &the_context;
    return 0;
}

int cuCtxGetCurrent(void **context) {
    *context = &the_context;
    return 0;
}

int cuCtxSetCurrent(void *context) {
    (void)context;
    return 0;
}

int cuDeviceGet(int *device, int ordinal) {
    if (ordinal != 0) return 101;
    *device = 0;
    return 0;
}

int cuGetErrorString(int error, const char **text) {
    *text = error == 0 ? "no error" : "not supported on the virtual GPU";
    return 0;
}
